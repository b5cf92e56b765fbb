// Strided copies inside a device: from a staging slot to where the bytes belong, swapping bytes on the way.
#pragma once

#include <cstdint>

#include "loadstone/exec/scatter_job.h"

namespace loadstone::device {

template <int kBytes>
struct Unit;
template <>
struct Unit<1> {
  using type = std::uint8_t;
};
template <>
struct Unit<2> {
  using type = std::uint16_t;
};
template <>
struct Unit<4> {
  using type = std::uint32_t;
};
template <>
struct Unit<8> {
  using type = uint2;
};
template <>
struct Unit<16> {
  using type = uint4;
};

__device__ inline std::uint32_t swap_word(std::uint32_t word, int swap) {
  return swap == 2 ? __byte_perm(word, 0, 0x2301) : __byte_perm(word, 0, 0x0123);
}
__device__ inline std::uint8_t swapped(std::uint8_t value, int /*swap*/) {
  return value;
}
__device__ inline std::uint16_t swapped(std::uint16_t value, int /*swap*/) {
  return static_cast<std::uint16_t>((value << 8) | (value >> 8));
}
__device__ inline std::uint32_t swapped(std::uint32_t value, int swap) {
  return swap_word(value, swap);
}
__device__ inline uint2 swapped(uint2 value, int swap) {
  const uint2 words = {swap_word(value.x, swap), swap_word(value.y, swap)};
  return swap == 8 ? uint2{words.y, words.x} : words;
}
__device__ inline uint4 swapped(uint4 value, int swap) {
  const uint2 low = swapped(uint2{value.x, value.y}, swap);
  const uint2 high = swapped(uint2{value.z, value.w}, swap);
  return {low.x, low.y, high.x, high.y};
}

template <int kBytes>
__device__ void scatter(const ScatterJob& job) {
  using T = typename Unit<kBytes>::type;
  const ScatterBox& box = job.boxes[blockIdx.y];
  for (std::uint32_t unit = blockIdx.x * ScatterJob::kThreads + threadIdx.x; unit < box.units;
       unit += gridDim.x * ScatterJob::kThreads) {
    std::uint32_t rest = unit;
    const unsigned char* from = box.from;
    unsigned char* to = box.to;
#pragma unroll
    for (int d = ScatterBox::kMaxDims - 1; d >= 0; --d) {
      if (d >= box.ndim) continue;
      const std::uint32_t index = rest % box.extents[d];
      rest /= box.extents[d];
      from += index * box.from_strides[d];
      to += index * box.to_strides[d];
    }
    T value = *reinterpret_cast<const T*>(from);
    if (job.swap != 0) value = swapped(value, job.swap);
    *reinterpret_cast<T*>(to) = value;
  }
}

}  // namespace loadstone::device

extern "C" __global__ void __launch_bounds__(loadstone::ScatterJob::kThreads)
    loadstone_scatter(const __grid_constant__ loadstone::ScatterJob job) {
  switch (job.unit) {
    case 16: return loadstone::device::scatter<16>(job);
    case 8: return loadstone::device::scatter<8>(job);
    case 4: return loadstone::device::scatter<4>(job);
    case 2: return loadstone::device::scatter<2>(job);
    default: return loadstone::device::scatter<1>(job);
  }
}
