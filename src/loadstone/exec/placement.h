#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/array/view.h"
#include "loadstone/plan/plan.h"

namespace loadstone {

/// A filled buffer: C-order elements of `shard.box`, in native byte order, on `shard.device`.
struct PlacedShard {
  std::int32_t array = 0;  ///< index into Placement::arrays
  Shard shard;
  View data;
};

struct PlacedArray {
  std::string name;
  DType dtype;
  Shape shape;
  Sharding sharding;
};

/// Bytes that have just arrived in a slot's host-readable window: `box` (array indices) of the slot's shard, in native
/// order. Handed to the tap while in cache.
struct ArrivedBytes {
  std::int32_t slot = 0;
  Box box;
  const std::byte* data = nullptr;  ///< address of box.begin
  Dims strides_bytes;               ///< one for each dimension
};

/// What the load cost, measured.
struct LoadStats {
  double seconds = 0;
  std::int64_t bytes_read = 0;    ///< from files
  std::int64_t bytes_copied = 0;  ///< staging to buffer and buffer to buffer
  std::int64_t requests = 0;      ///< positional reads issued
  std::int64_t opens = 0;
  std::int64_t files_direct =
      0;  ///< of those, read past the page cache because they were not in it (loading section 8)
  std::int64_t windows = 0;
  std::int64_t peak_staging_bytes = 0;
  std::int64_t decoded_pieces = 0;
  std::int64_t absent_pieces = 0;
  std::int64_t retries_stale = 0;  ///< ESTALE answers of a network file system that were retried (loading E9)
  int threads = 0;
};

/// What a load leaves: the shards of this process, in the order of the plan's slots. Owns the buffers through its
/// views.
struct Placement {
  std::int32_t process = 0;
  std::vector<PlacedArray> arrays;
  std::vector<PlacedShard> shards;
  LoadStats stats;
};

/// The whole array assembled from local shards (replica 0 first, any copy will do) in fresh C-order host memory.
/// Error{usage} when the local shards do not cover it.
View assemble(const Placement& placement, std::int32_t array);

}  // namespace loadstone
