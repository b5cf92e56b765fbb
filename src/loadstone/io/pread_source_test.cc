#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/io/byte_source.h"
#include "loadstone/io/read_exactly.h"

namespace loadstone {
namespace {

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return internal_error("no error");
}

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 % 251);
  return out;
}

class PreadSource : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "loadstone-io-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string write(const std::string& name, const std::vector<std::byte>& bytes) const {
    const std::string path = dir_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  std::string dir_;
};

TEST_F(PreadSource, ReadsAnyRangeAndStampsTheFile) {
  const std::vector<std::byte> bytes = counted(10000);
  const std::string path = write("a", bytes);
  const auto file = pread_sources().open(path);
  EXPECT_EQ(file->path(), path);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(file->stamp(), (FileStamp{10000, info.st_mtim.tv_sec * 1000000000LL + info.st_mtim.tv_nsec}));
  for (const auto& [offset, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, 10000}, {1, 9999}, {9999, 1}, {4096, 4096}, {500, 0}, {10000, 0}}) {
    std::vector<std::byte> got(size);
    file->read(static_cast<std::int64_t>(offset), got);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
}

// covers: loading R11, R12
TEST_F(PreadSource, TheEndOfTheFileInsideARangeNamesFileOffsetWantedAndGot) {
  const std::string path = write("short", counted(100));
  const auto file = pread_sources().open(path);
  std::vector<std::byte> got(50);
  Error error = error_of([&] { file->read(80, got); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(),
            cat("'", path, "': the file ends inside a read at offset 80: expected 50 bytes, found 20"));
  EXPECT_EQ(error.facts().file, path);
  EXPECT_EQ(error.facts().expected, "50 bytes at offset 80");
  EXPECT_EQ(error.facts().found, "20 bytes");
  std::filesystem::resize_file(path, 10);  // cut while open: an error, not a signal
  error = error_of([&] { file->read(0, got); });
  EXPECT_EQ(error.facts().found, "10 bytes");
}

// covers: loading E6
TEST_F(PreadSource, WhatCannotBeOpenedIsNamedWithItsErrno) {
  Error error = error_of([&] { pread_sources().open(dir_ + "/none"); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_EQ(error.message(), cat("'", dir_, "/none': cannot open: No such file or directory"));
  EXPECT_EQ(error.facts().os_error, ENOENT);
  EXPECT_EQ(error.facts().file, dir_ + "/none");

  std::filesystem::create_symlink("loop", dir_ + "/loop");
  error = error_of([&] { pread_sources().open(dir_ + "/loop"); });
  EXPECT_EQ(error.facts().os_error, ELOOP);

  error = error_of([&] { pread_sources().open(dir_); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), cat("'", dir_, "': expected a regular file, found a directory"));

  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  error = error_of([&] { pread_sources().open(dir_ + "/pipe"); });
  EXPECT_EQ(error.facts().found, "FIFO") << "and it does not wait for a writer";
  error = error_of([&] { pread_sources().open("/dev/null"); });
  EXPECT_EQ(error.facts().found, "device");

  error = error_of([&] { pread_sources().open(dir_ + "/a\x1b[2J\xff"); });
  EXPECT_NE(error.message().find("a\\x1b[2J\\xff': cannot open"), std::string::npos) << error.message();
  EXPECT_EQ(error.facts().file, dir_ + "/a\x1b[2J\xff") << "a program gets the bytes of the name";
}

TEST_F(PreadSource, DescriptorsAreClosedAndNotInherited) {
  const std::string path = write("a", counted(10));
  const int before = dup(0);
  close(before);
  {
    const auto file = pread_sources().open(path);
    EXPECT_EQ(fcntl(before, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
  EXPECT_EQ(fcntl(before, F_GETFD), -1);
}

/// Calls that answer as listed: > 0 that many bytes, 0 the end, < 0 that errno.
struct Script {
  std::vector<ssize_t> answers;
  std::size_t next = 0;
  std::vector<std::size_t> asked;
  std::vector<std::int64_t> offsets;
  int reopened = 0;
  bool same_file = true;

  ReadCalls calls() {
    ReadCalls out;
    out.pread = [this](void* dst, std::size_t count, std::int64_t offset) -> ssize_t {
      asked.push_back(count);
      offsets.push_back(offset);
      const ssize_t answer = next < answers.size() ? answers[next++] : static_cast<ssize_t>(count);
      if (answer < 0) {
        errno = static_cast<int>(-answer);
        return -1;
      }
      std::memset(dst, static_cast<int>(next), std::min(count, static_cast<std::size_t>(answer)));
      return answer;
    };
    out.reopen = [this] {
      ++reopened;
      errno = ENOENT;
      return same_file;
    };
    return out;
  }
};

// covers: loading R11, E9
TEST(ReadExactly, ContinuesPartialReadsAndRetriesInterruptedOnes) {
  Script script{{-EINTR, 3, -EAGAIN, 1, -EINTR, -EINTR, 2}, 0, {}, {}};
  std::vector<std::byte> dst(10);
  read_exactly(script.calls(), "f", 100, dst);
  EXPECT_EQ(script.asked, (std::vector<std::size_t>{10, 10, 7, 7, 6, 6, 6, 4}));
  EXPECT_EQ(script.offsets, (std::vector<std::int64_t>{100, 100, 103, 103, 104, 104, 104, 106}));
}

// covers: loading R11
TEST(ReadExactly, NeverAsksForMoreThanTheKernelMovesInOneCall) {
  Script script{{0x7ffff000, 0x7ffff000}, 0, {}, {}};
  ReadCalls calls = script.calls();
  const auto scripted = calls.pread;
  // Nothing is written, so the memory of this range need not exist.
  calls.pread = [&](void*, std::size_t count, std::int64_t offset) -> ssize_t {
    script.asked.push_back(count);
    script.offsets.push_back(offset);
    return static_cast<ssize_t>(count);
  };
  std::byte base{};
  const std::size_t size = 2 * std::size_t{0x7ffff000} + 5;
  read_exactly(calls, "f", 7, std::span<std::byte>(&base, size));
  EXPECT_EQ(script.asked, (std::vector<std::size_t>{0x7ffff000, 0x7ffff000, 5}));
  EXPECT_EQ(script.offsets.back(), 7 + 2 * std::int64_t{0x7ffff000});
}

// covers: loading E9
TEST(ReadExactly, RetriesAStaleHandleOnceAndCountsIt) {
  const std::int64_t before = stale_retries();
  Script script{{4, -ESTALE}, 0, {}, {}};
  std::vector<std::byte> dst(10);
  read_exactly(script.calls(), "f", 0, dst);
  EXPECT_EQ(script.reopened, 1);
  EXPECT_EQ(stale_retries(), before + 1);

  Script twice{{-ESTALE, 2, -ESTALE}, 0, {}, {}};
  Error error = error_of([&] { read_exactly(twice.calls(), "f", 0, dst); });
  EXPECT_EQ(error.facts().os_error, ESTALE);
  EXPECT_EQ(twice.reopened, 1);
  EXPECT_EQ(stale_retries(), before + 2);

  Script other{{-ESTALE}, 0, {}, {}};
  other.same_file = false;
  error = error_of([&] { read_exactly(other.calls(), "f", 0, dst); });
  EXPECT_EQ(error.facts().os_error, ESTALE) << "another file in its place is not read";
}

// covers: loading E9
TEST(ReadExactly, AnIoErrorIsAnErrorNeverFillValues) {
  Script script{{4, -EIO}, 0, {}, {}};
  std::vector<std::byte> dst(10);
  const Error error = error_of([&] { read_exactly(script.calls(), "dir/f", 20, dst); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_EQ(error.message(), "'dir/f': cannot read 10 bytes at offset 20: Input/output error");
  EXPECT_EQ(error.facts().os_error, EIO);
}

TEST(ReadExactly, ReadsNothingForAnEmptyRange) {
  Script script;
  read_exactly(script.calls(), "f", 0, {});
  EXPECT_TRUE(script.asked.empty());
}

}  // namespace
}  // namespace loadstone
