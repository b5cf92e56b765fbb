#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace loadstone {

/// What a file was at discovery. A file that differs when it is opened again was replaced or changed (loading R13).
struct FileStamp {
  std::int64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// An open file for positional reads. Safe from any thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads exactly dst.size() bytes at offset or throws: Error{data} naming path, offset, wanted and got at the end of
  /// the file; Error{system} for the errno. Continues partial reads, retries EINTR and EAGAIN, retries ESTALE once; no
  /// single call asks for more than 0x7ffff000 bytes (loading R11, E9).
  virtual void read(std::int64_t offset_bytes, std::span<std::byte> dst) = 0;
  virtual FileStamp stamp() const = 0;
  /// True when long reads go past the page cache to the disk: then fewer and longer ones are better.
  virtual bool direct() const { return false; }
  virtual std::string_view path() const = 0;
};

/// Opens files by path. The one seam behind which tests put memory, slow and failing files (tests/fakes).
class ByteSourceFactory {
 public:
  virtual ~ByteSourceFactory() = default;
  /// Error{system} with errno: missing, permission, link loop.
  virtual std::unique_ptr<ByteSource> open(const std::string& path) = 0;
};

/// Plain pread(2) on files opened O_RDONLY | O_CLOEXEC. The default everywhere. Lives for the process.
ByteSourceFactory& pread_sources();

/// Reads files that are in the page cache through it, and others the way that was faster on their file system so far:
/// past it (O_DIRECT) or through it. Decided once a file, at its opening (loading section 8). Short files and reads are
/// buffered, as is all that a file system refuses to read directly. One object a load; it must outlive its sources.
class ResidencySources final : public ByteSourceFactory {
 public:
  ResidencySources();
  ~ResidencySources() override;
  std::unique_ptr<ByteSource> open(const std::string& path) override;
  /// Files that were opened so far to be read past the page cache.
  std::int64_t files_direct() const;

 private:
  class Blocks;
  std::unique_ptr<Blocks> blocks_;
  std::atomic<std::int64_t> direct_{0};
};

/// ESTALE answers of network file systems that this process has retried so far, in opens and reads (loading E9).
std::int64_t stale_retries();
void count_stale_retry();

/// Counters a test or `--json` can ask for.
struct IoCounters {
  std::int64_t opens = 0;
  std::int64_t read_calls = 0;
  std::int64_t bytes_read = 0;
  std::int64_t retries_stale = 0;
};

}  // namespace loadstone
