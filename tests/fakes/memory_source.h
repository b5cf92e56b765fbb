#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/error.h"
#include "loadstone/io/byte_source.h"
#include "loadstone/io/read_exactly.h"

namespace loadstone::fakes {

/// Files in memory, by path, that note who opened them and what was read. Reads go through read_exactly, so they end,
/// continue and fail as those of real files do. Safe from any thread. Has to outlive its sources.
class MemorySources final : public ByteSourceFactory {
 public:
  struct ReadRecord {
    std::string path;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    friend bool operator==(const ReadRecord&, const ReadRecord&) = default;
  };

  /// Adds or replaces a file.
  FileStamp put(const std::string& path, std::vector<std::byte> bytes, std::int64_t mtime_ns = 1) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const FileStamp stamp{static_cast<std::int64_t>(bytes.size()), mtime_ns};
    files_[path] = std::make_shared<File>(File{std::move(bytes), stamp});
    return stamp;
  }
  /// Cuts the bytes, also under open sources; their stamp stays what it was at the open.
  void cut(const std::string& path, std::size_t bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    File& file = *files_.at(path);
    file.bytes.resize(bytes);
    file.stamp.size_bytes = static_cast<std::int64_t>(bytes);
  }
  void remove(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    files_.erase(path);
  }
  /// No single call gives more than this many bytes, and every other call is interrupted first.
  void read_in_small_calls(std::size_t bytes) { largest_call_ = bytes; }
  /// Opening more files at once than this fails with EMFILE. 0 = no limit.
  void limit_open_files(int limit) { limit_ = limit; }

  std::unique_ptr<ByteSource> open(const std::string& path) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (limit_ > 0 && open_now_ >= limit_) throw os_error(EMFILE, path, "cannot open");
    const auto found = files_.find(path);
    if (found == files_.end()) throw os_error(ENOENT, path, "cannot open");
    opens_.push_back(path);
    most_open_ = std::max(most_open_, ++open_now_);
    return std::make_unique<Source>(*this, path, found->second);
  }

  std::vector<std::string> opens() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return opens_;
  }
  std::vector<ReadRecord> reads() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return reads_;
  }
  std::int64_t bytes_read() const {
    std::int64_t sum = 0;
    for (const ReadRecord& read : reads()) sum += read.bytes;
    return sum;
  }
  int open_now() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return open_now_;
  }
  int most_open() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return most_open_;
  }
  void forget() {
    const std::lock_guard<std::mutex> lock(mutex_);
    opens_.clear();
    reads_.clear();
  }

 private:
  struct File {
    std::vector<std::byte> bytes;
    FileStamp stamp;
  };

  class Source final : public ByteSource {
   public:
    Source(MemorySources& owner, std::string path, std::shared_ptr<File> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)), stamp_(file_->stamp) {}
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;
    ~Source() override {
      const std::lock_guard<std::mutex> lock(owner_.mutex_);
      --owner_.open_now_;
    }
    void read(std::int64_t offset, std::span<std::byte> dst) override {
      {
        const std::lock_guard<std::mutex> lock(owner_.mutex_);
        owner_.reads_.push_back({path_, offset, static_cast<std::int64_t>(dst.size())});
      }
      int calls = 0;
      ReadCalls pread;
      pread.pread = [&](void* to, std::size_t count, std::int64_t at) -> ssize_t {
        if (owner_.largest_call_ > 0 && calls++ % 2 == 0) {
          errno = EINTR;
          return -1;
        }
        const std::lock_guard<std::mutex> lock(owner_.mutex_);
        const std::size_t size = file_->bytes.size();
        const auto from = std::min(static_cast<std::size_t>(at), size);
        std::size_t n = std::min(count, size - from);
        if (owner_.largest_call_ > 0) n = std::min(n, owner_.largest_call_);
        if (n > 0) std::memcpy(to, file_->bytes.data() + from, n);
        return static_cast<ssize_t>(n);
      };
      read_exactly(pread, path_, offset, dst);
    }
    FileStamp stamp() const override { return stamp_; }
    std::string_view path() const override { return path_; }

   private:
    MemorySources& owner_;
    std::string path_;
    std::shared_ptr<File> file_;
    FileStamp stamp_;
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::vector<std::string> opens_;
  std::vector<ReadRecord> reads_;
  std::size_t largest_call_ = 0;
  int limit_ = 0;
  int open_now_ = 0;
  int most_open_ = 0;
};

}  // namespace loadstone::fakes
