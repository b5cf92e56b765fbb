#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "loadstone/io/byte_source.h"

namespace loadstone {

/// Keeps recently used files open, fewer than the descriptor limit allows, and checks that each is still the file that
/// was discovered. Safe from any thread. A handle stays valid while it is held, also after eviction.
class FileCache {
 public:
  /// limit 0: half of RLIMIT_NOFILE's room, between 4 and 512.
  explicit FileCache(ByteSourceFactory& sources, int limit = 0);

  /// The open file number `key`. Opens it when needed and compares size and mtime with `expected`: Error{data} naming
  /// the file with both when they differ ("changed since it was inspected").
  std::shared_ptr<ByteSource> get(std::int64_t key, const std::string& path, const FileStamp& expected);
  std::int64_t opens() const;

 private:
  struct Entry {
    std::shared_ptr<ByteSource> source;
    std::list<std::int64_t>::iterator age;
  };
  ByteSourceFactory& sources_;
  int limit_;
  mutable std::mutex mutex_;
  std::list<std::int64_t> by_age_;  // most recently used first
  std::unordered_map<std::int64_t, Entry> open_;
  std::int64_t opens_ = 0;
};

}  // namespace loadstone
