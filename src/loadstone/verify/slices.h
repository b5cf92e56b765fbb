#pragma once

#include <cstdint>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"

namespace loadstone::detail {

/// Largest part of an array read or digested at once.
inline constexpr std::int64_t kWindowBytes = 8 << 20;

/// Cuts `box` into boxes that lie one after another, without gaps, in the C-order bytes of `box`, each of at most
/// max_bytes (at least 8) or one element. No slice ends inside a byte of a packed type. None for an empty box.
std::vector<Box> contiguous_slices(const Box& box, DType dtype, std::int64_t max_bytes);

/// A window size that gives each worker something to do: total / (4 · workers), between 256 KiB and kWindowBytes.
std::int64_t window_bytes(std::int64_t total_bytes, int workers);

}  // namespace loadstone::detail
