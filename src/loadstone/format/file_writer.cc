#include "loadstone/format/file_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/gather.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/write.h"

namespace loadstone {

namespace {

constexpr std::size_t kMaxWrite = 0x7ffff000;  // Linux moves no more in one call

/// The rename itself must survive a power cut, too. Best effort: not every file system can sync a directory.
void sync_folder(const std::string& path) {
  const std::string_view folder = folder_of(path);
  const int fd = ::open(folder.empty() ? "." : std::string(folder).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

}  // namespace

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  static std::atomic<unsigned> serial{0};
  struct stat found {};
  if (::stat(path_.c_str(), &found) == 0) {
    if (const std::string_view kind = kind_of_file(found.st_mode); !kind.empty()) {
      throw file_usage_error(path_, cat("is ", kind, ": cannot be replaced by a file"), "a regular file or none",
                             std::string(kind));
    }
  }
  // Short and hidden: the name fits beside the longest one, and scans pass over it.
  temporary_ = join_path(folder_of(path_), cat(".loadstone-", ::getpid(), "-", serial.fetch_add(1), ".tmp"));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw errno_error(errno, path_, "cannot create");
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void FileWriter::write(const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, from, std::min(bytes, kMaxWrite));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw errno_error(n < 0 ? errno : ENOSPC, path_, "cannot write");
    from += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void FileWriter::write_at(std::int64_t offset, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd_, from, std::min(bytes, kMaxWrite), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw errno_error(n < 0 ? errno : ENOSPC, path_, "cannot write");
    from += n;
    offset += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void FileWriter::commit() {
  if (::fsync(fd_) != 0) throw errno_error(errno, path_, "cannot sync");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw errno_error(errno, path_, "cannot rename into place");
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0 && errno != EINTR) {
    const int failed = errno;
    ::unlink(path_.c_str());
    throw errno_error(failed, path_, "cannot close");
  }
}

void write_file_atomically(const std::string& path, const void* data, std::size_t bytes) {
  FileWriter writer(path);
  writer.write(data, bytes);
  writer.commit();
  sync_folder(path);
}

}  // namespace loadstone
