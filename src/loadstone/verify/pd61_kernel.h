#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "loadstone/verify/pd61.h"

namespace loadstone::detail {

__extension__ using Wide = unsigned __int128;

inline constexpr std::uint64_t kPd61Prime = (std::uint64_t{1} << 61) - 1;
inline constexpr int kPd61BlockWords = 1024;

/// x mod 2^61-1, canonical.
constexpr std::uint64_t reduce61(Wide x) {
  const std::uint64_t folded = static_cast<std::uint64_t>(x & kPd61Prime) +
                               static_cast<std::uint64_t>((x >> 61) & kPd61Prime) +
                               static_cast<std::uint64_t>(x >> 122);
  const std::uint64_t once = (folded & kPd61Prime) + (folded >> 61);
  return once >= kPd61Prime ? once - kPd61Prime : once;
}
constexpr std::uint64_t mul61(std::uint64_t a, std::uint64_t b) {
  return reduce61(static_cast<Wide>(a) * b);
}
constexpr std::uint64_t add61(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t sum = a + b;
  return sum >= kPd61Prime ? sum - kPd61Prime : sum;
}

/// F(t, i) of the definition for one key: the outer step of t is taken once.
struct Pd61Mix {
  std::uint64_t base = 0;
  static Pd61Mix of(std::uint64_t key, std::uint64_t t);
  std::uint64_t operator()(std::uint64_t i) const;
};

/// The coefficients F(62, 0..1023) of both lanes, whole and in parts of 21, 21 and 19 bits: a 32-bit word times a part
/// stays below 2^53, so a 64-bit sum takes the 1024 products of a block without a carry.
struct Pd61Tables {
  alignas(64) std::array<std::array<std::array<std::uint32_t, kPd61BlockWords>, 3>, 2> parts;
  std::array<std::array<std::uint64_t, kPd61BlockWords>, 2> whole;
  explicit Pd61Tables(const Pd61Keys& keys);
  /// Shared by all users of the default keys.
  static std::shared_ptr<const Pd61Tables> of(const Pd61Keys& keys);
};

/// Adds Σ word · F(62, first + i) to sums[lane]; data holds `count` unaligned words, first + count <= 1024.
using Pd61Kernel = void (*)(const Pd61Tables& tables, const std::byte* data, int first, int count, Wide* sums);
Pd61Kernel pd61_scalar_kernel(int lanes);
/// nullptr where the processor or the build has no AVX2.
Pd61Kernel pd61_avx2_kernel(int lanes);

}  // namespace loadstone::detail
