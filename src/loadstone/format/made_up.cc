#include <cstring>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/write.h"

namespace loadstone {

namespace {

/// splitmix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that passes BigCrush on a counter.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31U);
}

/// Bits of the element at linear index i; `lane` tells the parts of a complex number apart.
std::uint64_t bits_at(std::uint64_t seed, std::int64_t i, std::uint64_t lane) {
  return mix(mix(seed ^ 0x6C6F616473746F6EULL) ^ (static_cast<std::uint64_t>(i) * 2 + lane));
}

// Uniform in [-1, 1), every value exact: as many bits as the significand has.
float unit_f32(std::uint64_t bits) {
  const auto k = static_cast<std::int32_t>(bits >> 40U) - (1 << 23);
  return static_cast<float>(k) * 0x1p-23F;
}
double unit_f64(std::uint64_t bits) {
  const auto k = static_cast<std::int64_t>(bits >> 11U) - (1LL << 52);
  return static_cast<double>(k) * 0x1p-52;
}

/// Flips the top exponent bit of patterns that are infinite or not a number, so that every element is finite.
std::uint16_t finite16(std::uint64_t bits, unsigned exponent_mask) {
  const auto pattern = static_cast<std::uint16_t>(bits >> 48U);
  return (pattern & exponent_mask) == exponent_mask ? static_cast<std::uint16_t>(pattern ^ 0x4000U) : pattern;
}

bool is_finite8(DType dtype, std::uint8_t pattern) {
  const unsigned magnitude = pattern & 0x7FU;
  switch (dtype.code) {
    case 7: return (magnitude & 0x70U) != 0x70U;   // e3m4: IEEE-like
    case 8: return (magnitude & 0x78U) != 0x78U;   // e4m3: IEEE-like
    case 10: return magnitude != 0x7FU;            // e4m3fn: one NaN
    case 12: return (magnitude & 0x7CU) != 0x7CU;  // e5m2: IEEE-like
    case 14: return pattern != 0xFFU;              // e8m0fnu
    default: return pattern != 0x80U;              // fnuz, b11fnuz: NaN where -0 would be
  }
}

template <typename T, typename Make>
void fill(std::uint64_t seed, std::int64_t first, std::int64_t count, std::byte* dst, std::uint64_t lanes, Make make) {
  for (std::int64_t i = first; i < first + count; ++i) {
    for (std::uint64_t lane = 0; lane < lanes; ++lane) {
      const T value = make(bits_at(seed, i, lane));
      std::memcpy(dst, &value, sizeof value);
      dst += sizeof value;
    }
  }
}

}  // namespace

void made_up_elements(DType dtype, std::uint64_t seed, std::int64_t first, std::int64_t count, std::byte* dst) {
  const bool complex = dtype.code == dtypes::kComplex64.code;
  const std::uint64_t lanes = complex ? 2 : 1;
  const int bits = complex ? dtype.bits / 2 : dtype.bits;
  const bool real = complex || dtype.code == dtypes::kFloat32.code;
  if (dtype.lanes != 1 || !dtype.whole_bytes()) {
    throw usage_error(cat("elements of ", to_string(dtype), " cannot be made up"));
  }
  if (dtype == dtypes::kBool) {
    fill<std::uint8_t>(seed, first, count, dst, 1, [](std::uint64_t b) { return static_cast<std::uint8_t>(b >> 63U); });
  } else if (real && bits == 64) {
    fill<double>(seed, first, count, dst, lanes, unit_f64);
  } else if (real && bits == 32) {
    fill<float>(seed, first, count, dst, lanes, unit_f32);
  } else if (real || dtype == dtypes::kBFloat16) {
    const unsigned mask = real ? 0x7C00U : 0x7F80U;
    fill<std::uint16_t>(seed, first, count, dst, lanes, [mask](std::uint64_t b) { return finite16(b, mask); });
  } else if (dtype.code > dtypes::kBool.code) {
    fill<std::uint8_t>(seed, first, count, dst, 1, [dtype](std::uint64_t b) {
      const auto pattern = static_cast<std::uint8_t>(b >> 56U);
      return is_finite8(dtype, pattern) ? pattern : static_cast<std::uint8_t>(pattern ^ 0x40U);
    });
  } else if (bits == 8) {
    fill<std::uint8_t>(seed, first, count, dst, 1, [](std::uint64_t b) { return static_cast<std::uint8_t>(b >> 56U); });
  } else if (bits == 16) {
    fill<std::uint16_t>(seed, first, count, dst, 1,
                        [](std::uint64_t b) { return static_cast<std::uint16_t>(b >> 48U); });
  } else if (bits == 32) {
    fill<std::uint32_t>(seed, first, count, dst, 1,
                        [](std::uint64_t b) { return static_cast<std::uint32_t>(b >> 32U); });
  } else {
    fill<std::uint64_t>(seed, first, count, dst, 1, [](std::uint64_t b) { return b; });
  }
}

void made_up_box(DType dtype, std::uint64_t seed, const Shape& shape, const Box& box, std::byte* dst) {
  if (box.empty()) return;
  const Dims inner = c_strides(shape);
  int cut = box.ndim() - 1;  // from here on the box is one run of elements
  while (cut > 0 && box.extent(cut) == shape[cut]) --cut;
  const std::int64_t run = cut < 0 ? 1 : box.extent(cut) * inner[cut];
  Dims at = box.begin;
  while (true) {
    std::int64_t first = 0;
    for (int d = 0; d < box.ndim(); ++d) first += at[d] * inner[d];
    made_up_elements(dtype, seed, first, run, dst);
    dst += run * dtype.itemsize();
    int d = cut - 1;
    for (; d >= 0; --d) {
      if (++at[d] < box.end[d]) break;
      at[d] = box.begin[d];
    }
    if (d < 0) return;
  }
}

}  // namespace loadstone
