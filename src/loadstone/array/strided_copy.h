#pragma once

#include <cstddef>
#include <cstdint>

#include "loadstone/array/dims.h"

namespace loadstone {

/// One side of a copy: the address of index 0 and the byte stride of each dimension.
struct StridedBytes {
  std::byte* data = nullptr;
  Dims strides_bytes;
};

/// Copies extents[0] x … elements of `itemsize` bytes from src to dst, bit for bit. Merges dimensions that are
/// contiguous on both sides and walks transposes in tiles that fit the cache. swap_bytes > 1 reverses every group of
/// that many bytes on the way (byte order). The two sides must not overlap.
void strided_copy(const StridedBytes& dst, const StridedBytes& src, const Dims& extents, std::int64_t itemsize,
                  std::int64_t swap_bytes = 1);

/// Reverses each group of `group` bytes (2, 4, 8 or 16) in place.
void swap_in_place(std::byte* data, std::int64_t bytes, std::int64_t group);

}  // namespace loadstone
