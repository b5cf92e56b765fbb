#include "loadstone/array/parse_element.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

template <typename T>
std::vector<std::byte> bytes_of(T value) {
  std::vector<std::byte> out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

template <typename T>
bool parse_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc() && end == text.data() + text.size();
}

/// from_chars gives out-of-range decimals no value; they are infinite or zero here as everywhere else.
bool parse_real(std::string_view text, double& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed == std::errc::result_out_of_range) {
    const bool tiny = text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
    value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    if (text.starts_with('-')) value = -value;
    return true;
  }
  return failed == std::errc() && end == text.data() + text.size();
}

/// Rounds to nearest even into `exponent_bits` and `fraction_bits` (IEEE 754 binary16, or bfloat16).
std::uint16_t narrow(double value, int exponent_bits, int fraction_bits) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000U : 0U;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto infinite = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinite | 1U << (fraction_bits - 1));
  value = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinite);
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), 1 - bias);  // subnormal numbers share the least exponent
  const double steps = std::nearbyint(std::ldexp(value, fraction_bits - exponent));
  // Carries run from the fraction into the exponent by themselves, up to infinity.
  const auto whole =
      static_cast<std::int64_t>(steps) + (static_cast<std::int64_t>(exponent + bias - 1) << fraction_bits);
  return static_cast<std::uint16_t>(sign | std::min<std::int64_t>(whole, infinite));
}

template <typename T>
std::vector<std::byte> integer(std::string_view text, bool& known) {
  T value{};
  known = parse_number(text, value);
  return bytes_of(value);
}

std::vector<std::byte> real(std::string_view text, int bits, bool brain, bool& known) {
  double value = 0;
  known = parse_real(text, value);
  if (bits == 64) return bytes_of(value);
  if (bits == 32) {
    float single = static_cast<float>(value);
    // Once from the decimal, not by way of double: two roundings can differ from one.
    float direct = 0;
    if (known && parse_number(text, direct)) single = direct;
    return bytes_of(single);
  }
  return bytes_of(brain ? narrow(value, 8, 7) : narrow(value, 5, 10));
}

std::vector<std::byte> parse(std::string_view text, DType dtype, bool& known) {
  known = false;
  if (dtype.lanes != 1) return {};
  if (dtype == dtypes::kBool) {
    known = text == "true" || text == "false" || text == "1" || text == "0";
    return {static_cast<std::byte>(text == "true" || text == "1")};
  }
  if (dtype.code == dtypes::kInt8.code) {
    switch (dtype.bits) {
      case 8: return integer<std::int8_t>(text, known);
      case 16: return integer<std::int16_t>(text, known);
      case 32: return integer<std::int32_t>(text, known);
      case 64: return integer<std::int64_t>(text, known);
      default: return {};
    }
  }
  if (dtype.code == dtypes::kUInt8.code) {
    switch (dtype.bits) {
      case 8: return integer<std::uint8_t>(text, known);
      case 16: return integer<std::uint16_t>(text, known);
      case 32: return integer<std::uint32_t>(text, known);
      case 64: return integer<std::uint64_t>(text, known);
      default: return {};
    }
  }
  if (dtype == dtypes::kBFloat16) return real(text, 16, true, known);
  if (dtype.code == dtypes::kFloat32.code && (dtype.bits == 16 || dtype.bits == 32 || dtype.bits == 64)) {
    return real(text, dtype.bits, false, known);
  }
  if (dtype == dtypes::kComplex64 || dtype == dtypes::kComplex128) {
    std::vector<std::byte> out = real(text, dtype.bits / 2, false, known);
    out.resize(static_cast<std::size_t>(dtype.bits / 8));
    return out;
  }
  return {};
}

}  // namespace

std::vector<std::byte> parse_element(std::string_view text, DType dtype) {
  bool known = false;
  std::vector<std::byte> out = parse(text, dtype, known);
  if (known) return out;
  throw usage_error(cat("'", printable(text), "' is no value of ", to_string(dtype)),
                    {{}, cat("a value of ", to_string(dtype)), printable(text), 0});
}

}  // namespace loadstone
