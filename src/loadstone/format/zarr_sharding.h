#pragma once

#include <cstdint>
#include <vector>

#include "loadstone/format/zarr_metadata.h"

namespace loadstone::zarr {

/// Where an inner chunk lies in its shard.
struct InnerChunk {
  std::int64_t offset_bytes = -1;  ///< -1 = not there
  std::int64_t stored_bytes = 0;
};

/// The index of a shard of `count` inner chunks, row-major. One read. Error{data} without a file name for one that is
/// damaged or points out of the file.
std::vector<InnerChunk> read_shard_index(ByteSource& shard, const Sharding& sharding, std::int64_t count);

}  // namespace loadstone::zarr
