#pragma once

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
