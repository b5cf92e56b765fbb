#pragma once

#include <cstdint>
#include <optional>

namespace loadstone {

/// Arithmetic on sizes that come from files and users: nullopt where the result does not fit in int64_t.
inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// The least integer >= a / b, for a >= 0 and b > 0. Never overflows: ceil_div(2^63-1, 2) = 2^62.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace loadstone
