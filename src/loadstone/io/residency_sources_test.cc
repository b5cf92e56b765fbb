#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "loadstone/base/error.h"
#include "loadstone/io/byte_source.h"

namespace loadstone {
namespace {

constexpr std::int64_t kBytes = (9 << 20) + 1234;  // no whole number of blocks

class ResidencySourcesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "loadstone-io-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    dir_ = name;
    bytes_.resize(static_cast<std::size_t>(kBytes));
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(i * 7 % 251 + i / 4096);
    path_ = dir_ + "/a";
    std::ofstream(path_, std::ios::binary).write(reinterpret_cast<const char*>(bytes_.data()), kBytes);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  /// Takes the file out of the page cache. False where the file system keeps it there (tmpfs).
  bool drop() {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    ::fdatasync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
    return open_direct() != nullptr;
  }
  /// The file to be read past the cache: the ways are tried by turns. Null where the file system cannot.
  std::unique_ptr<ByteSource> open_direct() {
    for (int turn = 0; turn < 2; ++turn) {
      std::unique_ptr<ByteSource> file = sources_.open(path_);
      if (file->direct()) return file;
    }
    return nullptr;
  }
  void expect_range(ByteSource& file, std::int64_t offset, std::int64_t size, std::size_t misalign) {
    std::vector<std::byte> memory(static_cast<std::size_t>(size) + misalign + 2, std::byte{0x5a});
    file.read(offset, {memory.data() + misalign + 1, static_cast<std::size_t>(size)});
    EXPECT_EQ(std::memcmp(memory.data() + misalign + 1, bytes_.data() + offset, static_cast<std::size_t>(size)), 0)
        << size << " bytes at " << offset;
    EXPECT_EQ(memory[misalign], std::byte{0x5a});
    EXPECT_EQ(memory.back(), std::byte{0x5a});
  }

  ResidencySources sources_;
  std::string dir_, path_;
  std::vector<std::byte> bytes_;
};

// covers: loading R6, R11
TEST_F(ResidencySourcesTest, ReadsAnyRangeOfAColdFilePastTheCache) {
  if (!drop()) GTEST_SKIP() << "the temporary folder's file system has no direct reads";
  const auto file = open_direct();
  ASSERT_NE(file, nullptr);
  EXPECT_GE(sources_.files_direct(), 1);
  EXPECT_EQ(file->stamp().size_bytes, kBytes);
  for (const std::int64_t offset : {0, 1, 128, 511, 512, 4096, 5000, 1 << 20}) {
    for (const std::int64_t size : {1, 4096, 300'000, 1 << 19, (4 << 20) + 7, 5 << 20}) {
      for (const std::size_t misalign : {0U, 63U, 511U}) expect_range(*file, offset, size, misalign);
    }
  }
  expect_range(*file, kBytes - 400'001, 400'001, 0);  // to the end, inside the last block
}

TEST_F(ResidencySourcesTest, ReadsStraightIntoAlignedMemory) {
  if (!drop()) GTEST_SKIP() << "the temporary folder's file system has no direct reads";
  const auto file = open_direct();
  ASSERT_NE(file, nullptr);
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, 8 << 20)), &std::free);
  file->read(1 << 20, {memory.get(), (7 << 20) + 5});
  EXPECT_EQ(std::memcmp(memory.get(), bytes_.data() + (1 << 20), (7 << 20) + 5), 0);
}

TEST_F(ResidencySourcesTest, ReadsACachedFileThroughTheCache) {
  std::ifstream(path_, std::ios::binary).read(reinterpret_cast<char*>(bytes_.data()), kBytes);
  ResidencySources sources;
  const auto file = sources.open(path_);
  EXPECT_FALSE(file->direct());
  EXPECT_EQ(sources.files_direct(), 0);
  expect_range(*file, 77, 5'000'000, 3);
}

// covers: loading R11
TEST_F(ResidencySourcesTest, NamesTheEndOfAFileThatWasCut) {
  if (!drop()) GTEST_SKIP() << "the temporary folder's file system has no direct reads";
  const auto file = open_direct();
  ASSERT_NE(file, nullptr);
  std::filesystem::resize_file(path_, 1'000'001);
  std::vector<std::byte> dst(600'000);
  try {
    file->read(500'001, dst);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("offset 500001: expected 600000 bytes, found 500000"), std::string::npos)
        << error.what();
  }
}

TEST_F(ResidencySourcesTest, LeavesShortFilesAlone) {
  std::ofstream(dir_ + "/b") << "short";
  ResidencySources sources;
  EXPECT_FALSE(sources.open(dir_ + "/b")->direct());
  EXPECT_THROW(sources.open(dir_ + "/none"), Error);
  EXPECT_THROW(sources.open(dir_), Error);
}

}  // namespace
}  // namespace loadstone
