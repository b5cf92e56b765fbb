// Plain twins of the GPU kernels for the fake driver. They follow the definition (docs/digest.md), not the kernels.
#include "tests/fakes/cuda_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace loadstone {

namespace {

__extension__ using Wide = unsigned __int128;
using U64 = unsigned long long;

constexpr U64 kPrime = (U64{1} << 61) - 1;

U64 times(U64 a, U64 b) {
  return static_cast<U64>(static_cast<Wide>(a) * b % kPrime);
}

U64 coefficient(U64 base, U64 i) {
  constexpr U64 kGolden = 0x9E3779B97F4A7C15ULL;
  U64 z = base + i * kGolden + kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return ((z ^ (z >> 31)) & kPrime) % kPrime;
}

/// Σ over dimensions d.. of the job, from this place on.
U64 sum_of(const Pd61Job& job, int lane, int d, const unsigned char* at, std::int64_t row) {
  U64 sum = 0;
  if (d < job.ndim) {
    const Pd61Job::Dim& dim = job.dims[d];
    for (std::int64_t i = 0; i < dim.extent; ++i) {
      U64 part = sum_of(job, lane, d + 1, at + i * dim.stride, row + i * dim.row_step);
      if (dim.row_step == 0) part = times(part, coefficient(dim.mix[lane], static_cast<U64>(dim.begin + i)));
      sum = (sum + part) % kPrime;
    }
    return sum;
  }
  for (std::int64_t i = 0; i < job.run_bytes; ++i) {
    const auto word = static_cast<U64>((row + i) / 4);
    const U64 value = static_cast<U64>(at[i]) << (8 * ((row + i) % 4));
    // A columns job whose runs lie in one block leaves that block's coefficient to the host.
    const U64 block = job.blocks_per_run == 1 ? 1 : coefficient(job.mix61[lane], word / 1024);
    const U64 place = times(block, coefficient(job.mix62[lane], word % 1024));
    sum = (sum + times(value, place)) % kPrime;
  }
  return sum;
}

void swap_values(unsigned char* unit, int bytes, int swap) {
  for (int i = 0; i + swap <= bytes; i += swap) std::reverse(unit + i, unit + i + swap);
}

}  // namespace

void pd61_twin(const Pd61Job& job, int lanes, unsigned blocks, unsigned long long* out) {
  std::fill(out, out + static_cast<std::size_t>(blocks) * static_cast<std::size_t>(lanes), 0);
  for (int lane = 0; lane < lanes; ++lane) out[lane] = sum_of(job, lane, 0, job.data, job.first_byte);
}

void scatter_twin(const ScatterJob& job) {
  for (int b = 0; b < job.count; ++b) {
    const ScatterBox& box = job.boxes[b];
    for (std::uint32_t unit = 0; unit < box.units; ++unit) {
      std::uint32_t rest = unit;
      const unsigned char* from = box.from;
      unsigned char* to = box.to;
      for (int d = box.ndim - 1; d >= 0; --d) {
        const std::uint32_t index = rest % box.extents[d];
        rest /= box.extents[d];
        from += index * box.from_strides[d];
        to += index * box.to_strides[d];
      }
      std::array<unsigned char, 16> value{};
      std::memcpy(value.data(), from, static_cast<std::size_t>(job.unit));
      if (job.swap > 1) swap_values(value.data(), job.unit, job.swap);
      std::memcpy(to, value.data(), static_cast<std::size_t>(job.unit));
    }
  }
}

}  // namespace loadstone
