#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loadstone/base/cancel.h"
#include "loadstone/base/progress.h"
#include "loadstone/format/catalog.h"
#include "loadstone/format/writers/writer.h"
#include "loadstone/io/byte_source.h"

namespace loadstone {

/// How a data set is written anew. At most one of the three sizes; none = as many files as the source has parts, or
/// one when the destination is a file.
struct ConvertOptions {
  std::string format;  ///< of all_writers(); "" = by the destination's extension, else the source's
  std::optional<std::int64_t> shards;
  std::optional<std::int64_t> rows_per_shard;
  std::optional<std::int64_t> shard_bytes;  ///< of elements; a shard has at least one row
  StorageOptions storage;
  std::vector<std::int64_t> arrays;  ///< indices into the catalog; empty = all
  bool replace = false;              ///< of what an earlier write or convert made, or of a file
  bool verify = false;               ///< compares the digests of what was read and of what was written
  std::optional<std::int64_t> memory_budget;
  int threads = 0;
  ByteSourceFactory* sources = nullptr;
  CancelToken* cancel = nullptr;
  ProgressFn progress;
};

struct ConvertReport {
  std::string format;
  std::vector<std::string> files;
  std::vector<NewArray> arrays;
  std::vector<std::vector<std::int64_t>> rows;  ///< [file][array]
  std::int64_t bytes = 0;                       ///< of the files
  std::vector<std::string> digests;             ///< of each array, when verified
  std::int64_t peak_bytes = 0;                  ///< of memory, as planned
  std::vector<std::string> notes;
};

/// Writes arrays of a catalog into `destination`: a folder of shards, or one file when it ends in an extension of the
/// format (".h5"; a store for ".zarr"). Streams: memory is bounded by the budget, or by 256 MiB and what one chunk or
/// row group takes. All is made in a hidden folder beside the destination that is renamed last: whatever ends the call,
/// the destination is whole, or as it was. What a killed call has left there is removed by the next.
/// Error{usage} for what the format cannot hold, a destination that exists, sizes that do not fit several arrays;
/// Error{system} for a budget that is too small; Error{data} when `verify` finds other bytes: nothing is put in place.
ConvertReport convert(const Catalog& catalog, const std::string& destination, const ConvertOptions& options = {});

}  // namespace loadstone
