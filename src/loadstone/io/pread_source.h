#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "loadstone/io/byte_source.h"
#include "loadstone/io/read_exactly.h"

namespace loadstone {

/// An open file. Closes on every way out.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// What pread_sources() opens.
class PreadSource final : public ByteSource {
 public:
  PreadSource(std::string path, Descriptor file, FileStamp stamp);
  PreadSource(const PreadSource&) = delete;
  PreadSource& operator=(const PreadSource&) = delete;
  ~PreadSource() override = default;
  /// Error{system} with errno; Error{data} when it is not a regular file.
  static std::unique_ptr<PreadSource> open(const std::string& path);

  void read(std::int64_t offset_bytes, std::span<std::byte> dst) override;
  FileStamp stamp() const override { return stamp_; }
  std::string_view path() const override { return path_; }
  int descriptor() const { return file_.get(); }

 private:
  bool reopen();

  std::string path_;
  Descriptor file_;
  FileStamp stamp_;
  ReadCalls calls_;
};

}  // namespace loadstone
