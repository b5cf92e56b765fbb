#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/array/dtype.h"
#include "loadstone/base/cancel.h"
#include "loadstone/base/progress.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

/// A made-up data set of sharded files, for demos, tests and benchmarks (loading E18).
struct WriteOptions {
  Shape shape;
  DType dtype = dtypes::kFloat32;
  std::int64_t shards = 1;
  bool uneven = false;  ///< rows differ from file to file (seeded), some may be small, none negative
  std::uint64_t seed = 0;
  std::string format = "npy";  ///< of all_writers(); raw also writes shard_meta.json
  std::string name = "data";   ///< of the array, in files that hold names
  StorageOptions storage;
  bool replace = false;  ///< remove the files listed in the directory's own .loadstone-write.json first
  CancelToken* cancel = nullptr;
  ProgressFn progress;
};

struct WriteReport {
  std::vector<std::string> files;
  std::vector<std::int64_t> rows;
  std::int64_t bytes = 0;  ///< of the files
};

/// Writes shard_0000.npy … into `dir` (made if missing). Refuses a non-empty directory (Error{usage}) unless `replace`.
/// Each file is written under a temporary name and renamed; on failure (full disk, interrupt) nothing of this call
/// stays. The element at linear index i depends on (seed, i) alone, so any tiling of the same array has the same
/// values.
WriteReport write_dataset(const std::string& dir, const WriteOptions& options, const ThreadPool& pool);

/// Fills dst with elements [first, first + count) of the made-up array.
void made_up_elements(DType dtype, std::uint64_t seed, std::int64_t first, std::int64_t count, std::byte* dst);
/// Fills dst with those of a box of a made-up array of this shape, in C order.
void made_up_box(DType dtype, std::uint64_t seed, const Shape& shape, const Box& box, std::byte* dst);

/// Writes bytes under a temporary name beside `path`, syncs and renames; unlinks the temporary on failure.
/// Error{system}.
void write_file_atomically(const std::string& path, const void* data, std::size_t bytes);

}  // namespace loadstone
