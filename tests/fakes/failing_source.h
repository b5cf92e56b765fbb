#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/io/byte_source.h"

namespace loadstone::fakes {

/// The files of another factory, of which one open or read fails as told. Opens and reads are counted from 1.
class FailingSources final : public ByteSourceFactory {
 public:
  explicit FailingSources(ByteSourceFactory& inner) : inner_(inner) {}

  /// The nth open (0 = none) fails with this errno.
  void fail_open(std::int64_t nth, int error) {
    open_nth_ = nth;
    open_errno_ = error;
  }
  /// The nth read fails with this errno; with `onwards` all later ones, too.
  void fail_read(std::int64_t nth, int error, bool onwards = false) {
    read_nth_ = nth;
    read_errno_ = error;
    onwards_ = onwards;
  }
  /// The nth read ends after half of its bytes, as at the end of a file.
  void short_read(std::int64_t nth) {
    read_nth_ = nth;
    read_errno_ = 0;
  }
  /// From the nth read on the files are only `bytes` long, whatever their stamps say.
  void cut(std::int64_t nth, std::int64_t bytes) {
    cut_nth_ = nth;
    cut_bytes_ = bytes;
  }

  std::int64_t opens() const { return opens_; }
  std::int64_t reads() const { return reads_; }
  /// Reads that began after the failing one had been thrown.
  std::int64_t reads_after_failure() const { return after_; }

  std::unique_ptr<ByteSource> open(const std::string& path) override {
    if (++opens_ == open_nth_) throw os_error(open_errno_, path, "cannot open");
    return std::make_unique<Source>(*this, inner_.open(path));
  }

 private:
  class Source final : public ByteSource {
   public:
    Source(FailingSources& owner, std::unique_ptr<ByteSource> inner) : owner_(owner), inner_(std::move(inner)) {}
    void read(std::int64_t offset, std::span<std::byte> dst) override { owner_.read(*inner_, offset, dst); }
    FileStamp stamp() const override { return inner_->stamp(); }
    std::string_view path() const override { return inner_->path(); }

   private:
    FailingSources& owner_;
    std::unique_ptr<ByteSource> inner_;
  };

  void read(ByteSource& file, std::int64_t offset, std::span<std::byte> dst) {
    const std::int64_t number = ++reads_;
    if (failed_) ++after_;
    const auto size = static_cast<std::int64_t>(dst.size());
    if (number == read_nth_ || (onwards_ && read_nth_ > 0 && number > read_nth_)) {
      const std::int64_t got = read_errno_ == 0 ? size / 2 : 0;
      file.read(offset, dst.first(static_cast<std::size_t>(got)));
      failed_ = true;
      if (read_errno_ != 0) throw os_error(read_errno_, file.path(), "cannot read");
      ended(file, offset, size, got);
    }
    if (cut_nth_ > 0 && number >= cut_nth_ && offset + size > cut_bytes_) {
      const std::int64_t got = std::clamp<std::int64_t>(cut_bytes_ - offset, 0, size);
      file.read(offset, dst.first(static_cast<std::size_t>(got)));
      failed_ = true;
      ended(file, offset, size, got);
    }
    file.read(offset, dst);
  }

  [[noreturn]] static void ended(const ByteSource& file, std::int64_t offset, std::int64_t wanted, std::int64_t got) {
    ErrorFacts facts;
    facts.file = std::string(file.path());
    facts.expected = cat(wanted, " bytes at offset ", offset);
    facts.found = cat(got, " bytes");
    throw data_error(cat("'", file.path(), "': the file ends inside a read at offset ", offset, ": expected ", wanted,
                         " bytes, found ", got),
                     std::move(facts));
  }

  ByteSourceFactory& inner_;
  std::int64_t open_nth_ = 0, read_nth_ = 0, cut_nth_ = 0, cut_bytes_ = 0;
  int open_errno_ = 0, read_errno_ = 0;
  bool onwards_ = false;
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> opens_{0}, reads_{0}, after_{0};
};

}  // namespace loadstone::fakes
