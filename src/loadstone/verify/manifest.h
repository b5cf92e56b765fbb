#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/array/dtype.h"
#include "loadstone/base/progress.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/verify/pd61.h"

namespace loadstone {

/// Digests of one array: of the whole and of blocks of global rows (at most 4096), so that damage can be located. Binds
/// shape, dtype, byte count, key id and rule version; names no file: the same array in other files passes.
struct ManifestArray {
  std::string name;
  DType dtype;
  Shape shape;
  std::int64_t bytes = 0;
  Pd61Value digest;
  std::int64_t rows_per_block = 0;  ///< 0: no blocks (0-d, empty)
  std::vector<Pd61Value> blocks;
  friend bool operator==(const ManifestArray&, const ManifestArray&) = default;
};

struct Manifest {
  static constexpr int kSchema = 1;
  std::string rule = "PD61/1";
  std::string key_id = "loadstone-default";
  std::vector<ManifestArray> arrays;
  const ManifestArray* find(std::string_view name) const;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

std::string to_json(const Manifest& manifest);
/// Error{data} naming `path` and what is malformed, missing, of another schema or rule. Bounded: never trusts a count.
Manifest parse_manifest(std::string_view json, std::string_view path);
Manifest read_manifest(const std::string& path);
/// Temporary name beside `path`, then rename; no partial file stays on failure.
void write_manifest(const Manifest& manifest, const std::string& path);

/// Reads `box` of an array as C-order native elements into dst (box bytes). Safe from any thread. load.cc makes it from
/// the Catalog alone; verify never sees a file or the planner.
using SourceReader = std::function<void(const Box& box, std::span<std::byte> dst)>;

/// Digests an array by one plain contiguous pass over its rows.
ManifestArray digest_array(const std::string& name, DType dtype, const Shape& shape, const SourceReader& read,
                           const ThreadPool& pool, ProgressMeter* progress = nullptr, CancelToken* cancel = nullptr);

}  // namespace loadstone
