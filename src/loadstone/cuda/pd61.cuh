// The placement digest PD61 of a tile in device memory (docs/digest.md). Bit-equal to verify/pd61.cc.
//
// A coefficient is split into parts of 21, 21 and 19 bits: a 32-bit word times a part stays below 2^53, so that a
// 64-bit sum takes 2048 products without a carry. Each part has a sum of its own; they are put together mod 2^61-1 at
// the end.
#pragma once

#include <cstdint>

#include "loadstone/verify/pd61_job.h"

namespace loadstone::device {

using u32 = std::uint32_t;
using u64 = unsigned long long;
using i64 = std::int64_t;

constexpr u64 kPrime = (u64{1} << 61) - 1;
constexpr u64 kGolden = 0x9E3779B97F4A7C15ULL;
constexpr u32 kPart = (1U << 21) - 1;
constexpr int kThreads = Pd61Job::kThreads;
constexpr int kUnroll = 4;  // loads of a thread that go out together; as many more are under way

__device__ inline u64 fold(u64 x) {
  x = (x & kPrime) + (x >> 61);
  return x >= kPrime ? x - kPrime : x;
}
__device__ inline u64 add61(u64 a, u64 b) {
  const u64 sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}
/// a, b < 2^61.
__device__ inline u64 mul61(u64 a, u64 b) {
  const u64 low = a * b;
  return fold((low & kPrime) + ((low >> 61) | (__umul64hi(a, b) << 3)));
}
/// x · 2^bits mod 2^61-1 for x < 2^61-1: a rotation.
__device__ inline u64 rotate61(u64 x, int bits) {
  return ((x << bits) & kPrime) | (x >> (61 - bits));
}
__device__ inline u64 join_parts(u64 low, u64 middle, u64 high) {
  return add61(fold(low), add61(rotate61(fold(middle), 21), rotate61(fold(high), 42)));
}
/// F(t, i), `base` being the outer mixing step of t.
__device__ inline u64 mix(u64 base, u64 i) {
  u64 z = base + i * kGolden + kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z = (z ^ (z >> 31)) & kPrime;
  return z == kPrime ? 0 : z;
}

/// The four words of the row at `at`, of which the bytes [from, to) count; the others are 0 and not read.
__device__ inline uint4 load_part(const unsigned char* at, int from, int to) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  if (from <= 0 && to >= 16) {
    if ((address & 15) == 0) return __ldcs(reinterpret_cast<const uint4*>(at));
    if ((address & 3) == 0) {
      const auto* words = reinterpret_cast<const u32*>(at);
      return {__ldg(words), __ldg(words + 1), __ldg(words + 2), __ldg(words + 3)};
    }
    // A little further than the vector on both sides, where the run goes on.
    if (from <= -4 && to >= 20) {
      const auto shift = static_cast<u32>(address & 3) * 8;
      const auto* words = reinterpret_cast<const u32*>(address & ~std::uintptr_t{3});
      const u32 w0 = __ldg(words), w1 = __ldg(words + 1), w2 = __ldg(words + 2), w3 = __ldg(words + 3);
      const u32 w4 = __ldg(words + 4);
      return {__funnelshift_r(w0, w1, shift), __funnelshift_r(w1, w2, shift), __funnelshift_r(w2, w3, shift),
              __funnelshift_r(w3, w4, shift)};
    }
  }
  u32 words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    if (i >= from && i < to) words[i / 4] |= static_cast<u32>(at[i]) << (8 * (i % 4));
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Sums of a thread block, in out[block · lanes + lane].
template <int kLanes>
__device__ void store_block_sum(const u64 (&total)[kLanes], u64* out) {
  __shared__ u64 sums[kLanes][kThreads / 32];
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    u64 sum = total[lane];
    for (int offset = 16; offset > 0; offset /= 2) sum = add61(sum, __shfl_down_sync(~0U, sum, offset));
    if (threadIdx.x % 32 == 0) sums[lane][threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x < kLanes) {
    u64 sum = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) sum = add61(sum, sums[threadIdx.x][warp]);
    out[static_cast<u64>(blockIdx.x) * kLanes + threadIdx.x] = sum;
  }
}

/// What is known of the vectors of a columns job.
enum class Columns {
  full,     ///< every thread has a whole, aligned vector in every block
  aligned,  ///< vectors are whole and aligned, but blocks may be cut short
  any
};

/// A (part of a) 4 KiB block of a run, as the threads of the columns kernel share it.
template <int kLanes>
struct Item {
  const unsigned char* at;  // where the block's column 0 would be
  int from, to;             // its bytes that belong to the run; a little more where the run goes on beyond the block
  uint4 parts[kLanes];      // of the block's coefficient: 21, 21 and 19 bits
};

template <int kLanes>
__device__ inline Item<kLanes> item_of(const Pd61Job& job, i64 number) {
  Item<kLanes> out;
  u64 run = static_cast<u64>(number);
  i64 block = 0;
  u64 coefficient[kLanes];
  const i64 first_block = job.first_byte / Pd61Job::kBlockBytes;
  if (job.blocks_per_run > 1) {
    block = number % job.blocks_per_run;
    run = static_cast<u64>(number / job.blocks_per_run);
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      coefficient[lane] = mix(job.mix61[lane], static_cast<u64>(first_block + block));
    }
  } else {  // one block for all runs: the host multiplies by its coefficient
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) coefficient[lane] = 1;
  }
  const i64 skipped = (first_block + block) * Pd61Job::kBlockBytes - job.first_byte;  // of the run, before column 0
  out.at = job.data + skipped;
  for (int d = job.ndim - 1; d >= 0; --d) {
    const Pd61Job::Dim& dim = job.dims[d];
    u64 index = run;
    if (d > 0) {
      const auto extent = static_cast<u64>(dim.extent);
      run = index / extent;
      index -= run * extent;
    }
    out.at += static_cast<i64>(index) * dim.stride;
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      coefficient[lane] = mul61(coefficient[lane], mix(dim.mix[lane], static_cast<u64>(dim.begin) + index));
    }
  }
  out.from = static_cast<int>(max(i64{-16}, -skipped));
  out.to = static_cast<int>(min(Pd61Job::kBlockBytes + 16, job.run_bytes - skipped));
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    out.parts[lane] = {static_cast<u32>(coefficient[lane]) & kPart, static_cast<u32>(coefficient[lane] >> 21) & kPart,
                       static_cast<u32>(coefficient[lane] >> 42), 0};
  }
  return out;
}

/// Runs of (parts of) 4 KiB blocks of rows, one after another: thread v of `width` owns the columns of vector v of
/// every block, so F(62, ·) is multiplied once, at the very end, and the coefficient of a block is the same for all
/// threads. While a batch of blocks is summed, the next one is described in the other half of shared memory.
template <int kLanes, Columns kColumns>
__device__ void pd61_columns(const Pd61Job& job, u64* out) {
  __shared__ Item<kLanes> items[2][kThreads];

  const int width = job.width;
  const int groups = kThreads / width;
  const int group = static_cast<int>(threadIdx.x) / width;
  const int vector = job.first_vector + static_cast<int>(threadIdx.x) % width;
  const int byte = vector * 16;
  u64 sums[kLanes][3][4] = {};

  const auto load = [&](const Item<kLanes>& item) -> uint4 {
    if constexpr (kColumns == Columns::full) {
      return __ldcs(reinterpret_cast<const uint4*>(item.at + byte));
    } else if constexpr (kColumns == Columns::aligned) {
      if (byte >= item.from && byte < item.to) return __ldcs(reinterpret_cast<const uint4*>(item.at + byte));
    } else {
      if (byte + 16 > item.from && byte < item.to) {
        return load_part(item.at + byte, item.from - byte, item.to - byte);
      }
    }
    return {0, 0, 0, 0};
  };
  const auto add = [&](const Item<kLanes>& item, const uint4& data) {
#pragma unroll
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint4 parts = item.parts[lane];
      const u32 factors[3] = {parts.x, parts.y, parts.z};
#pragma unroll
      for (int part = 0; part < 3; ++part) {
        const u64 factor = factors[part];
        sums[lane][part][0] += data.x * factor;
        sums[lane][part][1] += data.y * factor;
        sums[lane][part][2] += data.z * factor;
        sums[lane][part][3] += data.w * factor;
      }
    }
  };

  const i64 begin = static_cast<i64>(blockIdx.x) * job.items_per_block;
  const i64 end = min(begin + job.items_per_block, job.items);
  const auto describe = [&](i64 batch) {
    const i64 number = batch + threadIdx.x;
    Item<kLanes> item = {};
    if (number < end) item = item_of<kLanes>(job, number);
    return item;
  };
  items[0][threadIdx.x] = describe(begin);
  __syncthreads();
  int half = 0;
  for (i64 batch = begin; batch < end; batch += kThreads, half ^= 1) {
    if (batch + kThreads < end) items[half ^ 1][threadIdx.x] = describe(batch + kThreads);
    const int count = static_cast<int>(min(i64{kThreads}, end - batch));
    const Item<kLanes>* const mine = items[half] + group;
    const int rounds = (count - group + groups - 1) / groups;  // items of this thread
    int i = 0;
    if (rounds >= kUnroll) {
      // While some vectors are summed, the next ones are on their way.
      uint4 now[kUnroll];
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) now[j] = load(mine[j * groups]);
      for (; i + 2 * kUnroll <= rounds; i += kUnroll) {
        uint4 next[kUnroll];
#pragma unroll
        for (int j = 0; j < kUnroll; ++j) next[j] = load(mine[(i + kUnroll + j) * groups]);
#pragma unroll
        for (int j = 0; j < kUnroll; ++j) add(mine[(i + j) * groups], now[j]);
#pragma unroll
        for (int j = 0; j < kUnroll; ++j) now[j] = next[j];
      }
#pragma unroll
      for (int j = 0; j < kUnroll; ++j) add(mine[(i + j) * groups], now[j]);
      i += kUnroll;
    }
    for (; i < rounds; ++i) add(mine[i * groups], load(mine[i * groups]));
    __syncthreads();
  }

  u64 total[kLanes] = {};
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const u64 column = mix(job.mix62[lane], static_cast<u64>(vector) * 4 + static_cast<u64>(word));
      const u64 sum = join_parts(sums[lane][0][word], sums[lane][1][word], sums[lane][2][word]);
      total[lane] = add61(total[lane], mul61(sum, column));
    }
  }
  store_block_sum<kLanes>(total, out);
}

/// Any runs: a thread takes one vector of 16 row-aligned bytes at a time, with the coefficients of its columns from a
/// table. Threads go through the items with the same stride, so that their indices advance by additions.
template <int kLanes>
__device__ void pd61_vectors(const Pd61Job& job, u64* out) {
  __shared__ u64 columns[kLanes][Pd61Job::kBlockBytes / 4];
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) {
    for (unsigned k = threadIdx.x; k < Pd61Job::kBlockBytes / 4; k += kThreads) {
      columns[lane][k] = mix(job.mix62[lane], k);
    }
  }
  __syncthreads();

  constexpr int kDims = Pd61Job::kMaxDims;
  const i64 stride = static_cast<i64>(gridDim.x) * kThreads;
  i64 item = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x;
  i64 rest = item;
  i64 vector = rest % job.vectors_per_run;
  rest /= job.vectors_per_run;
  i64 index[kDims];
#pragma unroll
  for (int d = kDims - 1; d >= 0; --d) {
    index[d] = 0;
    if (d < job.ndim) {
      index[d] = rest % job.dims[d].extent;
      rest /= job.dims[d].extent;
    }
  }

  u64 total[kLanes] = {};
  for (; item < job.items; item += stride) {
    const unsigned char* at = job.data;
    i64 row = job.first_byte;
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      if (d >= job.ndim) break;
      at += index[d] * job.dims[d].stride;
      row += index[d] * job.dims[d].row_step;
    }
    const i64 row_vector = row / 16 + vector;  // row >= 0
    const i64 ahead = row_vector * 16 - row;   // of the run, before this vector
    const int from = ahead < 0 ? static_cast<int>(-ahead) : 0;
    const i64 left = job.run_bytes - ahead;
    if (left > 0) {
      const int before = ahead >= 4 ? -4 : from;
      const uint4 data = load_part(at + ahead, before, static_cast<int>(min(left, i64{20})));
      const u64 block = static_cast<u64>(row_vector) / 256;
      const unsigned column = static_cast<unsigned>(row_vector) % 256 * 4;
#pragma unroll
      for (int lane = 0; lane < kLanes; ++lane) {
        const u32 words[4] = {data.x, data.y, data.z, data.w};
        u64 low = 0, middle = 0, high = 0;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const u64 factor = columns[lane][column + k];
          low += static_cast<u64>(words[k]) * (static_cast<u32>(factor) & kPart);
          middle += static_cast<u64>(words[k]) * (static_cast<u32>(factor >> 21) & kPart);
          high += static_cast<u64>(words[k]) * static_cast<u32>(factor >> 42);
        }
        u64 sum = mul61(join_parts(low, middle, high), mix(job.mix61[lane], block));
#pragma unroll
        for (int d = 0; d < kDims; ++d) {
          if (d >= job.ndim) break;
          const Pd61Job::Dim& dim = job.dims[d];
          if (dim.row_step == 0) sum = mul61(sum, mix(dim.mix[lane], static_cast<u64>(dim.begin + index[d])));
        }
        total[lane] = add61(total[lane], sum);
      }
    }
    // The next item: mixed-radix addition of the stride.
    vector += job.vector_step;
    i64 carry = vector >= job.vectors_per_run ? 1 : 0;
    if (carry != 0) vector -= job.vectors_per_run;
#pragma unroll
    for (int d = kDims - 1; d >= 0; --d) {
      if (d < job.ndim) {
        index[d] += job.dims[d].step + carry;
        carry = index[d] >= job.dims[d].extent ? 1 : 0;
        if (carry != 0) index[d] -= job.dims[d].extent;
      }
    }
  }
  store_block_sum<kLanes>(total, out);
}

}  // namespace loadstone::device

#define LOADSTONE_PD61_KERNEL(name, ...)                                              \
  extern "C" __global__ void __launch_bounds__(loadstone::device::kThreads, 2)        \
      name(const __grid_constant__ loadstone::Pd61Job job, unsigned long long* out) { \
    using loadstone::device::Columns;                                                 \
    loadstone::device::__VA_ARGS__(job, out);                                         \
  }
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_1_full, pd61_columns<1, Columns::full>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_2_full, pd61_columns<2, Columns::full>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_1, pd61_columns<1, Columns::aligned>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_2, pd61_columns<2, Columns::aligned>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_1_any, pd61_columns<1, Columns::any>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_columns_2_any, pd61_columns<2, Columns::any>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_vectors_1, pd61_vectors<1>)
LOADSTONE_PD61_KERNEL(loadstone_pd61_vectors_2, pd61_vectors<2>)
#undef LOADSTONE_PD61_KERNEL
