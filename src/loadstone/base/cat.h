#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace loadstone {

namespace detail {
inline void append(std::string& out, std::string_view text) {
  out.append(text);
}
inline void append(std::string& out, const char* text) {
  out.append(text);
}
inline void append(std::string& out, char c) {
  out.push_back(c);
}
inline void append(std::string& out, bool value) {
  out.append(value ? "true" : "false");
}
template <std::integral T>
void append(std::string& out, T value) {
  out.append(std::to_string(value));
}
}  // namespace detail

/// Joins text and integers into one string: cat("found ", 3, " files"). Floating point goes through format_fixed.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

}  // namespace loadstone
