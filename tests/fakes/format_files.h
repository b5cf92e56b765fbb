#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/discover.h"

namespace loadstone {

/// A folder of its own for one test, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "loadstone-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string at(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::string put(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
    std::ofstream out(at(name), std::ios::binary);
    out << bytes;
    return at(name);
  }

 private:
  std::string path_;
};

/// A .npy file: version, header text as given, payload.
inline std::string npy_bytes(const std::string& header, const std::string& payload, int major = 1) {
  std::string out("\x93NUMPY", 6);
  out.push_back(static_cast<char>(major));
  out.push_back('\0');
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xFFU));
  return out + header + payload;
}

/// A well-formed .npy file of zeros, padded to 64 as NumPy does.
inline std::string npy_file(const std::string& descr, const Shape& shape, std::int64_t itemsize, bool fortran = false) {
  std::string header = cat("{'descr': '", descr, "', 'fortran_order': ", fortran ? "True" : "False",
                           ", 'shape': ", to_string(shape), ", }");
  header.append(63 - (10 + header.size()) % 64, ' ');
  header.push_back('\n');
  return npy_bytes(header, std::string(static_cast<std::size_t>(num_elems(shape) * itemsize), '\0'));
}
inline std::string npy_rows(std::int64_t rows, std::int64_t columns = 2) {
  return npy_file("<f4", {rows, columns}, 4);
}

/// Opens real files and counts opens and bytes; names in `refused` fail with that errno.
class CountingSources final : public ByteSourceFactory {
 public:
  std::unique_ptr<ByteSource> open(const std::string& path) override {
    ++opens;
    if (path.ends_with(refused)) throw os_error(refused_errno, path, "cannot open");
    return std::make_unique<Source>(pread_sources().open(path), *this);
  }
  std::atomic<std::int64_t> opens{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> reads{0};
  std::string refused = "\n";
  int refused_errno = EACCES;

 private:
  class Source final : public ByteSource {
   public:
    Source(std::unique_ptr<ByteSource> source, CountingSources& counts) : source_(std::move(source)), counts_(counts) {}
    void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
      ++counts_.reads;
      counts_.bytes += static_cast<std::int64_t>(dst.size());
      source_->read(offset_bytes, dst);
    }
    FileStamp stamp() const override { return source_->stamp(); }
    std::string_view path() const override { return source_->path(); }

   private:
    std::unique_ptr<ByteSource> source_;
    CountingSources& counts_;
  };
};

/// The Error that `body` throws; fails the test when it throws none.
template <typename Body>
Error error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return internal_error("no error was thrown");
}

/// Fails unless each word is in the error's message.
inline void expect_error(const Error& error, ErrorKind kind, const std::vector<std::string>& words) {
  EXPECT_EQ(kind_name(error.kind()), kind_name(kind)) << error.message();
  for (const std::string& word : words) {
    EXPECT_NE(error.message().find(word), std::string::npos) << "'" << word << "' is not in: " << error.message();
  }
}

}  // namespace loadstone
