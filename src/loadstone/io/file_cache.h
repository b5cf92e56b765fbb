#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "loadstone/io/byte_source.h"

namespace loadstone {

/// Keeps recently used files open, fewer than the descriptor limit allows, and checks that each is still the file that
/// was discovered. Safe from any thread: one key is opened once, and files already open are handed out while another is
/// being opened. A handle stays valid while it is held, also after eviction.
class FileCache {
 public:
  /// limit 0: half of RLIMIT_NOFILE's room, between 4 and 512.
  explicit FileCache(ByteSourceFactory& sources, int limit = 0);

  /// The open file number `key`. Opens it when needed and compares size and mtime with `expected`: Error{data} naming
  /// the file with both when they differ ("changed since it was inspected").
  std::shared_ptr<ByteSource> get(std::int64_t key, const std::string& path, const FileStamp& expected);
  std::int64_t opens() const;

 private:
  /// An open file or one being opened; `source` is set once, under mutex_.
  struct Entry {
    std::shared_ptr<ByteSource> source;
    std::exception_ptr failure;
    bool ready = false;
  };
  struct Cached {
    std::shared_ptr<Entry> entry;
    std::list<std::int64_t>::iterator age;
  };

  std::shared_ptr<ByteSource> open_counted(const std::string& path);
  std::vector<std::shared_ptr<Entry>> take_idle(std::size_t at_most);

  ByteSourceFactory& sources_;
  std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::list<std::int64_t> by_age_;  // most recently used first
  std::unordered_map<std::int64_t, Cached> open_;
  std::int64_t opens_ = 0;
};

}  // namespace loadstone
