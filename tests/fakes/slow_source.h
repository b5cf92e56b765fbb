#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "loadstone/io/byte_source.h"

namespace loadstone::fakes {

/// The files of another factory, each open and each read of which takes a while.
class SlowSources final : public ByteSourceFactory {
 public:
  using Delay = std::chrono::microseconds;
  explicit SlowSources(ByteSourceFactory& inner, Delay read_delay, Delay open_delay = Delay(0))
      : inner_(inner), read_delay_(read_delay), open_delay_(open_delay) {}

  std::unique_ptr<ByteSource> open(const std::string& path) override {
    std::this_thread::sleep_for(open_delay_);
    return std::make_unique<Source>(inner_.open(path), read_delay_);
  }

 private:
  class Source final : public ByteSource {
   public:
    Source(std::unique_ptr<ByteSource> inner, Delay delay) : inner_(std::move(inner)), delay_(delay) {}
    void read(std::int64_t offset, std::span<std::byte> dst) override {
      std::this_thread::sleep_for(delay_);
      inner_->read(offset, dst);
    }
    FileStamp stamp() const override { return inner_->stamp(); }
    std::string_view path() const override { return inner_->path(); }

   private:
    std::unique_ptr<ByteSource> inner_;
    Delay delay_;
  };

  ByteSourceFactory& inner_;
  Delay read_delay_;
  Delay open_delay_;
};

}  // namespace loadstone::fakes
