#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "loadstone/array/place.h"

namespace loadstone {

/// One allocation and how to give it back. Shared by every View of it; freed when the last one goes, on whatever thread
/// that is. Immutable but for the bytes.
class Memory {
 public:
  using Release = std::function<void(std::byte* base, std::int64_t bytes)>;

  /// Takes over [base, base + bytes); `release` runs once, when the last user is gone. It must not throw.
  Memory(std::byte* base, std::int64_t bytes, Place place, bool readonly, Release release);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  /// Uninitialised host memory, aligned to 64 bytes (JAX aliases nothing less) and, from 4 MiB on, to huge pages. A
  /// size of 0 gives base() == nullptr. Error{system} naming the size when there is none.
  static std::shared_ptr<Memory> allocate_host(std::int64_t bytes, Place place = {});

  std::byte* base() const { return base_; }
  std::int64_t bytes() const { return bytes_; }
  Place place() const { return place_; }
  bool readonly() const { return readonly_; }

 private:
  std::byte* base_;
  std::int64_t bytes_;
  Place place_;
  bool readonly_;
  Release release_;
};

}  // namespace loadstone
