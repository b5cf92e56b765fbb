#include "loadstone/io/file_cache.h"

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

std::int64_t descriptors_in_use() {
  DIR* dir = ::opendir("/proc/self/fd");
  if (dir == nullptr) return 8;
  std::int64_t count = -3;  // ".", ".." and the one that reads this directory
  while (::readdir(dir) != nullptr) ++count;
  ::closedir(dir);
  return std::max<std::int64_t>(count, 0);
}

int limit_from_system() {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 512;
  const std::int64_t room = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, 1 << 20)) - descriptors_in_use();
  return static_cast<int>(std::clamp<std::int64_t>(room / 2, 4, 512));
}

void check_stamp(const std::string& path, const FileStamp& expected, const FileStamp& found) {
  if (expected == found) return;
  const bool size = expected.size_bytes != found.size_bytes;
  const auto describe = [size](const FileStamp& stamp) {
    return size ? cat(stamp.size_bytes, " bytes") : cat("mtime ", stamp.mtime_ns, " ns");
  };
  const ErrorFacts facts{path, describe(expected), describe(found), 0};
  throw data_error(cat("'", printable(path), "': ", size ? "changed" : "modified", " since it was inspected: expected ",
                       facts.expected, ", found ", facts.found),
                   facts);
}

bool out_of_descriptors(const Error& error) {
  return error.facts().os_error == EMFILE || error.facts().os_error == ENFILE;
}

}  // namespace

FileCache::FileCache(ByteSourceFactory& sources, int limit)
    : sources_(sources), limit_(static_cast<std::size_t>(limit > 0 ? limit : limit_from_system())) {}

std::int64_t FileCache::opens() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return opens_;
}

/// Takes the least recently used files that nobody holds out of the cache. The caller lets go of them without the lock:
/// close(2) may take long on a network file system.
std::vector<std::shared_ptr<FileCache::Entry>> FileCache::take_idle(std::size_t at_most) {
  std::vector<std::shared_ptr<Entry>> out;
  for (auto it = by_age_.end(); it != by_age_.begin() && out.size() < at_most;) {
    --it;
    const auto found = open_.find(*it);
    const Entry& entry = *found->second.entry;
    if (!entry.ready || entry.source.use_count() > 1) continue;
    out.push_back(std::move(found->second.entry));
    open_.erase(found);
    it = by_age_.erase(it);
  }
  return out;
}

std::shared_ptr<ByteSource> FileCache::open_counted(const std::string& path) {
  for (bool again = false;; again = true) {
    try {
      std::shared_ptr<ByteSource> source = sources_.open(path);
      const std::lock_guard<std::mutex> lock(mutex_);
      ++opens_;
      return source;
    } catch (const Error& error) {
      if (again || !out_of_descriptors(error)) throw;
    }
    std::vector<std::shared_ptr<Entry>> idle;
    const std::lock_guard<std::mutex> lock(mutex_);
    idle = take_idle(open_.size());
  }
}

std::shared_ptr<ByteSource> FileCache::get(std::int64_t key, const std::string& path, const FileStamp& expected) {
  std::shared_ptr<Entry> entry;
  {
    std::vector<std::shared_ptr<Entry>> idle;
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = open_.find(key);
    if (found != open_.end()) {
      by_age_.splice(by_age_.begin(), by_age_, found->second.age);
      entry = found->second.entry;
      opened_.wait(lock, [&] { return entry->ready; });
      if (entry->failure) std::rethrow_exception(entry->failure);
      return entry->source;
    }
    if (open_.size() >= limit_) idle = take_idle(open_.size() - limit_ + 1);
    entry = std::make_shared<Entry>();
    by_age_.push_front(key);
    open_[key] = {entry, by_age_.begin()};
  }
  std::shared_ptr<ByteSource> source;
  std::exception_ptr failure;
  try {
    source = open_counted(path);
    check_stamp(path, expected, source->stamp());
  } catch (...) {
    failure = std::current_exception();
    source = nullptr;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    entry->source = source;
    entry->failure = failure;
    entry->ready = true;
    if (failure) {
      const auto found = open_.find(key);
      by_age_.erase(found->second.age);
      open_.erase(found);
    }
  }
  opened_.notify_all();
  if (failure) std::rethrow_exception(failure);
  return source;
}

}  // namespace loadstone
