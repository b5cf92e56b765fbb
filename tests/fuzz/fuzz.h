#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "loadstone/base/error.h"

namespace loadstone::fuzz {

/// Bad input has to end in an Error that blames whoever gave it: anything else (another exception, a bug of ours) stops
/// the fuzzer, as a crash does.
template <typename Body>
void only_blames_input(Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal || error.message().empty()) throw;
  }
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A check that also holds in a release build.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace loadstone::fuzz
