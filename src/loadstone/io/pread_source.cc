#include "loadstone/io/pread_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

/// O_NONBLOCK: a FIFO put in a file's place must not block the open; regular files do not care.
int open_readonly(const std::string& path) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "directory";
  if (S_ISFIFO(mode)) return "FIFO";
  if (S_ISSOCK(mode)) return "socket";
  return "device";
}

FileStamp stamp_of(const struct stat& info) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {info.st_size, static_cast<std::int64_t>(info.st_mtim.tv_sec) * kSecond + info.st_mtim.tv_nsec};
}

[[noreturn]] void not_a_file(const std::string& path, const char* kind) {
  ErrorFacts facts;
  facts.file = path;
  facts.expected = "a regular file";
  facts.found = kind;
  throw data_error(cat("'", printable(path), "': expected a regular file, found a ", kind), std::move(facts));
}

class PreadFactory final : public ByteSourceFactory {
 public:
  std::unique_ptr<ByteSource> open(const std::string& path) override { return PreadSource::open(path); }
};

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

PreadSource::PreadSource(std::string path, Descriptor file, FileStamp stamp)
    : path_(std::move(path)), file_(std::move(file)), stamp_(stamp) {
  calls_.pread = [this](void* dst, std::size_t count, std::int64_t offset) {
    return ::pread(file_.get(), dst, count, offset);
  };
  calls_.reopen = [this] { return reopen(); };
}

std::unique_ptr<PreadSource> PreadSource::open(const std::string& path) {
  int fd = open_readonly(path);
  if (fd < 0 && errno == ESTALE) {
    count_stale_retry();
    fd = open_readonly(path);
  }
  if (fd < 0) {
    if (errno == ENXIO) not_a_file(path, "socket or device without a driver");
    throw os_error(errno, path, "cannot open");
  }
  Descriptor file(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) throw os_error(errno, path, "cannot stat");
  if (!S_ISREG(info.st_mode)) not_a_file(path, kind_of(info.st_mode));
  return std::make_unique<PreadSource>(path, std::move(file), stamp_of(info));
}

void PreadSource::read(std::int64_t offset_bytes, std::span<std::byte> dst) {
  read_exactly(calls_, path_, offset_bytes, dst);
}

/// A network file system has lost the handle: takes a new one for the same number, if the file is the same.
bool PreadSource::reopen() {
  const Descriptor again(open_readonly(path_));
  struct stat info {};
  if (again.get() < 0 || ::fstat(again.get(), &info) != 0 || stamp_of(info) != stamp_) return false;
  return ::dup3(again.get(), file_.get(), O_CLOEXEC) >= 0;
}

ByteSourceFactory& pread_sources() {
  static PreadFactory factory;
  return factory;
}

}  // namespace loadstone
