#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "loadstone/verify/manifest.h"

namespace loadstone::detail {

inline constexpr std::size_t kMaxManifestBytes = std::size_t{64} << 20;
inline constexpr std::int64_t kMaxManifestBlocks = 4096;

/// ceil(rows / 4096), for packed types rounded so that no block ends inside a byte; 0 for 0-d and empty arrays.
std::int64_t rows_per_block(const Shape& shape, DType dtype);

/// Adds the digest of `box` to the blocks of rows that it crosses; data points at box.begin.
void add_to_blocks(const Pd61& rule, const Box& box, const std::byte* data, const Dims& strides_bytes,
                   std::int64_t rows_per_block, std::span<Pd61Value> blocks);

/// Byte strides of the C-order bytes of `box`; for packed types those between its runs of whole bytes.
Dims contiguous_strides(const Box& box, DType dtype);

}  // namespace loadstone::detail
