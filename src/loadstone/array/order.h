#pragma once

#include <cstdint>

namespace loadstone {

/// When bytes may be touched. "Nothing to wait for" is a value; protocol numbers (None, -1, 0, 1, 2) are decoded at the
/// border and never travel inside.
struct Order {
  enum class Kind : std::uint8_t {
    ready,   ///< the bytes are there
    stream,  ///< after the work queued on `handle` (a driver stream) so far
    event    ///< after the event `handle`
  };
  Kind kind = Kind::ready;
  std::uintptr_t handle = 0;
  friend bool operator==(const Order&, const Order&) = default;
};

}  // namespace loadstone
