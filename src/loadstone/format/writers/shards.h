#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "loadstone/base/cancel.h"
#include "loadstone/base/progress.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

/// Lists the files that a write made in a folder: only these may be removed by a later one (loading E18).
inline constexpr std::string_view kMarkerName = ".loadstone-write.json";

/// Takes away what a failed call has made.
class Undo {
 public:
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo();
  void add_folder(std::string path) { folders_.push_back(std::move(path)); }
  /// A file or a store.
  void add_file(std::string path);
  void keep() { kept_ = true; }

 private:
  std::mutex mutex_;
  std::vector<std::string> files_;
  std::vector<std::string> folders_;
  bool kept_ = false;
};

/// Removes a file or a folder with all in it, as far as that is possible; tries again when something fails.
void remove_tree(const std::string& path) noexcept;
/// Makes `dir` and its parents; those made are noted for undoing.
void make_folders(const std::string& dir, Undo& undo);

/// Error{usage} for a folder with anything in it. With `replace` only for one that holds what no earlier write lists as
/// its own, or no list. Nothing is removed.
void check_room(const std::string& dir, bool replace);
/// check_room, then removes what an earlier write lists.
void make_room(const std::string& dir, bool replace);
/// Error{usage} unless all in this folder is what a zarr store consists of.
void check_own_store(const std::string& folder);

/// Arrays cut along axis 0 into files of one format.
struct ShardSet {
  const Writer* writer = nullptr;
  StorageOptions storage;
  std::vector<NewArray> arrays;  ///< whole
  /// [shard][array]: rows. All of a 0-d array lies in the only shard.
  std::vector<std::vector<std::int64_t>> rows;
  std::vector<std::string> names;  ///< of the files
  /// Elements of boxes of the whole arrays, for a worker of the pool.
  std::function<BoxSource(int worker)> source;
  bool marker = true;  ///< list the files in kMarkerName; a sidecar of raw files is written then, too
  CancelToken* cancel = nullptr;
};

/// shard_0000.npy …, as wide as the last number needs.
std::vector<std::string> shard_names(const Writer& writer, std::int64_t shards);
/// What shard number `shard` will hold, without a source.
NewFile file_of_shard(const ShardSet& set, std::size_t shard);
/// Error{usage} for what the format cannot hold.
void check_writable(const ShardSet& set);
/// Writes the files into `dir`, each under a temporary name that is renamed; returns the sum of their sizes. What is
/// made is noted in `undo`.
std::int64_t write_shards(const std::string& dir, const ShardSet& set, const ThreadPool& pool, ProgressMeter& meter,
                          Undo& undo);

}  // namespace loadstone
