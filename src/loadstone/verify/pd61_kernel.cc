#include "loadstone/verify/pd61_kernel.h"

#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define LOADSTONE_AVX2 __attribute__((target("avx2")))
#endif

namespace loadstone::detail {

namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

/// The SplitMix64 step.
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z += kGolden;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

template <int kLanes>
void add_words_scalar(const Pd61Tables& tables, const std::byte* data, int first, int count, Wide* sums) {
  const std::uint64_t* const whole[2] = {tables.whole[0].data() + first, tables.whole[1].data() + first};
  Wide local[kLanes] = {};
  for (int i = 0; i < count; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, data + 4 * std::ptrdiff_t{i}, 4);
    for (int lane = 0; lane < kLanes; ++lane) local[lane] += static_cast<Wide>(word) * whole[lane][i];
  }
  for (int lane = 0; lane < kLanes; ++lane) sums[lane] += local[lane];
}

#if defined(__x86_64__)
LOADSTONE_AVX2 inline std::uint64_t sum_of(__m256i v) {
  alignas(32) std::uint64_t parts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(parts), v);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

LOADSTONE_AVX2 inline __m256i even_words(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

// vmovshdup from memory costs a load only, where a shift would take one of the ports that multiply.
LOADSTONE_AVX2 inline __m256i odd_words(const void* p) {
  return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_loadu_ps(static_cast<const float*>(p))));
}

template <int kLanes>
LOADSTONE_AVX2 void add_words_avx2(const Pd61Tables& tables, const std::byte* data, int first, int count, Wide* sums) {
  __m256i acc[kLanes][3];
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int part = 0; part < 3; ++part) acc[lane][part] = _mm256_setzero_si256();
  }
  int i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256i even = even_words(data + 4 * std::ptrdiff_t{i});
    const __m256i odd = odd_words(data + 4 * std::ptrdiff_t{i});
#pragma GCC unroll 2
    for (int lane = 0; lane < kLanes; ++lane) {
#pragma GCC unroll 3
      for (std::size_t part = 0; part < 3; ++part) {
        const std::uint32_t* table = tables.parts[static_cast<std::size_t>(lane)][part].data() + first + i;
        const __m256i products =
            _mm256_add_epi64(_mm256_mul_epu32(even, even_words(table)), _mm256_mul_epu32(odd, odd_words(table)));
        acc[lane][part] = _mm256_add_epi64(acc[lane][part], products);
      }
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    sums[lane] += static_cast<Wide>(sum_of(acc[lane][0])) + (static_cast<Wide>(sum_of(acc[lane][1])) << 21) +
                  (static_cast<Wide>(sum_of(acc[lane][2])) << 42);
  }
  if (i < count) add_words_scalar<kLanes>(tables, data + 4 * std::ptrdiff_t{i}, first + i, count - i, sums);
}
#endif

}  // namespace

Pd61Mix Pd61Mix::of(std::uint64_t key, std::uint64_t t) {
  return {split_mix(key ^ ((t + 1) * 0xD1342543DE82EF95ULL))};
}

std::uint64_t Pd61Mix::operator()(std::uint64_t i) const {
  const std::uint64_t low = split_mix(base + i * kGolden) & kPd61Prime;
  return low == kPd61Prime ? 0 : low;
}

Pd61Tables::Pd61Tables(const Pd61Keys& keys) {
  for (std::size_t lane = 0; lane < 2; ++lane) {
    const Pd61Mix mix = Pd61Mix::of(lane == 0 ? keys.k0 : keys.k1, 62);
    for (std::size_t k = 0; k < kPd61BlockWords; ++k) {
      const std::uint64_t value = mix(k);
      whole[lane][k] = value;
      parts[lane][0][k] = static_cast<std::uint32_t>(value & 0x1fffff);
      parts[lane][1][k] = static_cast<std::uint32_t>((value >> 21) & 0x1fffff);
      parts[lane][2][k] = static_cast<std::uint32_t>(value >> 42);
    }
  }
}

std::shared_ptr<const Pd61Tables> Pd61Tables::of(const Pd61Keys& keys) {
  static const auto standard = std::make_shared<const Pd61Tables>(Pd61Keys{});
  return keys == Pd61Keys{} ? standard : std::make_shared<const Pd61Tables>(keys);
}

Pd61Kernel pd61_scalar_kernel(int lanes) {
  return lanes == 1 ? add_words_scalar<1> : add_words_scalar<2>;
}

Pd61Kernel pd61_avx2_kernel(int lanes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) return lanes == 1 ? add_words_avx2<1> : add_words_avx2<2>;
#endif
  static_cast<void>(lanes);
  return nullptr;
}

}  // namespace loadstone::detail
