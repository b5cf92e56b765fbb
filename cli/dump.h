#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/signals.h"
#include "loadstone/base/cancel.h"
#include "loadstone/base/progress.h"
#include "loadstone/exec/placement.h"

namespace loadstone::cli {

/// A file that appears whole or not at all: written under a temporary name in the same directory, synced and renamed by
/// commit(); removed by the destructor until then. Devices and pipes (/dev/stdout, a FIFO) are written straight.
/// All failures are Error{system} naming the path as the user gave it.
class OutputFile {
 public:
  /// Checks the path and makes the temporary file, so that a bad path is seen before any work.
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  const std::string& path() const { return path_; }
  /// Claims the space, so that a full disk is seen before the load. Where the file system cannot, nothing happens.
  void reserve(std::int64_t bytes);
  /// Opens the temporary file again after pause(); the constructor leaves it open.
  void resume();
  /// Closes the descriptor until resume(): many outputs share few descriptors.
  void pause();
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Puts what was written on the disk. After it only commit() may follow.
  void finish();
  /// Makes the file appear under its name.
  void commit();
  /// Takes back a commit of a file that was not there before.
  void revoke();

 private:
  [[noreturn]] void fail(int errno_value, std::string_view action) const;
  std::string path_, target_, temporary_;
  std::unique_ptr<TemporaryNote> note_;
  int fd_ = -1;
  bool straight_ = false, existed_ = false, committed_ = false;
  std::int64_t written_ = 0;
};

/// Writes text to `path` in one go.
void write_output(const std::string& path, std::string_view text);

/// The outputs of a load: --dump (whole arrays, assembled window by window) and --dump-each (each device's shard).
/// Patterns may hold {array} and {device}.
class Dumps {
 public:
  /// Error{usage} for a pattern that gives two outputs one name, before any I/O.
  static void check_patterns(const std::string& dump, const std::string& dump_each, std::size_t num_arrays,
                             std::int64_t num_devices);
  /// Makes the temporary files. Error{usage} when an output is one of the files of the data set.
  Dumps(const std::string& dump, const std::string& dump_each, const Catalog& catalog, const Plan& plan);

  bool empty() const { return files_.empty(); }
  std::vector<std::string> paths() const;
  /// Writes all, syncs all, then renames all. Nothing stays when anything fails.
  void write(const Placement& placement, CancelToken* cancel, const ProgressFn& progress);

 private:
  struct Target {
    std::unique_ptr<OutputFile> file;
    std::int32_t array = -1;  // whole array, or
    std::int32_t slot = -1;   // one shard
  };
  std::vector<Target> files_;
};

/// Calls fn with the C-order bytes of the whole array, in order, in windows of about `window_bytes`. Memory O(window).
/// Error{usage} when the local shards do not cover the array.
void for_each_window(const Placement& placement, std::int32_t array, std::int64_t window_bytes,
                     const std::function<void(std::span<const std::byte>)>& fn);

}  // namespace loadstone::cli
