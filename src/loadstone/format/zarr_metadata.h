#pragma once

#include <optional>
#include <string>
#include <vector>

#include "loadstone/array/dtype.h"
#include "loadstone/format/format.h"
#include "loadstone/format/zarr_codecs.h"
#include "loadstone/format/zarr_json.h"

namespace loadstone::zarr {

/// Chunks that are files with chunks inside (the codec sharding_indexed).
struct Sharding {
  Shape chunk;  ///< of the inner chunks; divides that of the shards
  Chain chain;  ///< of the inner chunks
  bool index_at_start = false, index_big = false, index_checked = false;
};

/// What the metadata of one array says.
struct Metadata {
  DiskType type;
  Shape shape, chunk;
  Chain chain;
  std::optional<Sharding> sharding;
  std::string prefix, separator;  ///< of chunk keys
  bool zero_key = false;          ///< 0 dimensions: the key is "0", not the prefix
  std::vector<std::byte> fill;    ///< one element, native; empty for null
  std::string note;
};

/// Error{data} without a file name, or Error{usage} for a --dtype that does not fit.
Metadata read_v2(const Json& json, const ReadHints& hints);
Metadata read_v3(const Json& json, const ReadHints& hints);

}  // namespace loadstone::zarr
