#include "loadstone/io/file_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/thread_pool.h"
#include "tests/fakes/memory_source.h"
#include "tests/fakes/slow_source.h"

namespace loadstone {
namespace {

using Files = std::vector<FileStamp>;

Files put_files(fakes::MemorySources& sources, int count) {
  Files stamps;
  for (int i = 0; i < count; ++i) {
    stamps.push_back(sources.put(cat("f", i), std::vector<std::byte>(static_cast<std::size_t>(i) + 1), i));
  }
  return stamps;
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return internal_error("no error");
}

TEST(FileCache, OpensAFileOnceAndHandsOutTheSame) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 2);
  FileCache cache(sources, 4);
  const auto first = cache.get(0, "f0", stamps[0]);
  EXPECT_EQ(cache.get(0, "f0", stamps[0]), first);
  EXPECT_NE(cache.get(1, "f1", stamps[1]), first);
  EXPECT_EQ(cache.opens(), 2);
  EXPECT_EQ(sources.opens(), (std::vector<std::string>{"f0", "f1"}));
}

// covers: loading D19
TEST(FileCache, KeepsTheMostRecentlyUsedOpenAndNeverMoreThanItsLimit) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 100);
  FileCache cache(sources, 4);
  const auto get = [&](int i) { return cache.get(i, cat("f", i), stamps[static_cast<std::size_t>(i)]); };
  for (int i = 0; i < 4; ++i) get(i);
  get(0);  // now 1 is the oldest
  get(4);
  EXPECT_EQ(sources.open_now(), 4);
  get(0);
  EXPECT_EQ(cache.opens(), 5) << "0 was kept";
  get(1);
  EXPECT_EQ(cache.opens(), 6) << "1 was closed";
  for (int i = 0; i < 100; ++i) get(i);
  EXPECT_LE(sources.most_open(), 4);
}

TEST(FileCache, AHandleLivesWhileItIsHeld) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 10);
  const auto held = [&] {
    FileCache cache(sources, 1);
    auto handle = cache.get(3, "f3", stamps[3]);
    for (int i = 4; i < 10; ++i) cache.get(i, cat("f", i), stamps[static_cast<std::size_t>(i)]);
    return handle;
  }();
  std::vector<std::byte> bytes(4);
  held->read(0, bytes);
  EXPECT_EQ(sources.open_now(), 1);
}

// covers: loading R13
TEST(FileCache, RefusesAFileThatIsNotTheOneThatWasInspected) {
  fakes::MemorySources sources;
  put_files(sources, 3);
  FileCache cache(sources, 4);
  Error error = error_of([&] { cache.get(2, "f2", {5, 2}); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), "'f2': changed since it was inspected: expected 5 bytes, found 3 bytes");
  EXPECT_EQ(error.facts().expected, "5 bytes");
  EXPECT_EQ(error.facts().found, "3 bytes");
  EXPECT_EQ(error.facts().file, "f2");
  error = error_of([&] { cache.get(2, "f2", {3, 7}); });
  EXPECT_EQ(error.message(), "'f2': modified since it was inspected: expected mtime 7 ns, found mtime 2 ns");
  EXPECT_EQ(sources.open_now(), 0) << "a refused file is not kept";
  EXPECT_NE(cache.get(2, "f2", {3, 2}), nullptr) << "a failure is not remembered";
}

// covers: loading D19
TEST(FileCache, ClosesWhatIsNotInUseWhenDescriptorsRunOut) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 20);
  FileCache cache(sources, 100);
  sources.limit_open_files(5);
  const auto held = cache.get(0, "f0", stamps[0]);
  for (int i = 1; i < 20; ++i) EXPECT_NE(cache.get(i, cat("f", i), stamps[static_cast<std::size_t>(i)]), nullptr);
  EXPECT_LE(sources.most_open(), 5);
  EXPECT_EQ(cache.get(0, "f0", stamps[0]), held) << "files in use stay";
  sources.limit_open_files(1);
  const Error error = error_of([&] { cache.get(1, "f1", stamps[1]); });
  EXPECT_EQ(error.facts().os_error, EMFILE) << "retried once, then reported";
}

TEST(FileCache, ManyThreadsOpenEachFileOnce) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 8);
  fakes::SlowSources slow(sources, std::chrono::microseconds(0), std::chrono::milliseconds(5));
  FileCache cache(slow, 16);
  const ThreadPool pool(8);
  pool.run_on_all([&](int worker) {
    for (int i = 0; i < 64; ++i) {
      const int key = (i / 8 + worker % 2) % 8;
      const auto file = cache.get(key, cat("f", key), stamps[static_cast<std::size_t>(key)]);
      EXPECT_EQ(file->stamp(), stamps[static_cast<std::size_t>(key)]);
    }
  });
  EXPECT_EQ(cache.opens(), 8);
  EXPECT_EQ(sources.opens().size(), 8U);
}

TEST(FileCache, AllWhoWaitForAFailingOpenGetItsError) {
  fakes::MemorySources sources;
  fakes::SlowSources slow(sources, std::chrono::microseconds(0), std::chrono::milliseconds(20));
  FileCache cache(slow, 16);
  const ThreadPool pool(4);
  std::atomic<int> failed{0};
  pool.run_on_all([&](int) {
    try {
      cache.get(1, "none", {});
    } catch (const Error& error) {
      EXPECT_EQ(error.facts().os_error, ENOENT);
      ++failed;
    }
  });
  EXPECT_EQ(failed, 4);
}

TEST(FileCache, HitsDoNotWaitForAnotherFilesOpen) {
  fakes::MemorySources sources;
  const Files stamps = put_files(sources, 2);
  class Gate final : public ByteSourceFactory {
   public:
    explicit Gate(ByteSourceFactory& inner) : inner_(inner) {}
    std::unique_ptr<ByteSource> open(const std::string& path) override {
      if (path == "f1") {
        inside = true;
        while (!go) std::this_thread::yield();
      }
      return inner_.open(path);
    }
    std::atomic<bool> inside{false}, go{false};

   private:
    ByteSourceFactory& inner_;
  } gate(sources);
  FileCache cache(gate, 4);
  cache.get(0, "f0", stamps[0]);
  std::thread opener([&] { cache.get(1, "f1", stamps[1]); });
  while (!gate.inside) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) EXPECT_NE(cache.get(0, "f0", stamps[0]), nullptr);
  EXPECT_EQ(cache.opens(), 1);
  gate.go = true;
  opener.join();
  EXPECT_EQ(cache.opens(), 2);
}

// covers: loading D19
TEST(FileCache, WorksUnderADescriptorLimitOfSixtyFour) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::string dir = testing::TempDir() + "/loadstone-cache-XXXXXX";
  ASSERT_NE(mkdtemp(dir.data()), nullptr);
  constexpr int kFiles = 900;
  Files stamps;
  for (int i = 0; i < kFiles; ++i) {
    const std::string path = cat(dir, "/", i);
    const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(write(fd, &i, sizeof i), static_cast<ssize_t>(sizeof i));
    close(fd);
    stamps.push_back(pread_sources().open(path)->stamp());
  }
  struct rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  FileCache cache(pread_sources());
  const ThreadPool pool(4);
  std::atomic<int> right{0};
  pool.parallel_for(kFiles, [&](std::int64_t i, int) {
    int got = -1;
    cache.get(i, cat(dir, "/", i), stamps[static_cast<std::size_t>(i)])
        ->read(0, std::as_writable_bytes(std::span<int>(&got, 1)));
    if (got == i) ++right;
  });
  EXPECT_EQ(right, kFiles);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int i = 0; i < kFiles; ++i) unlink(cat(dir, "/", i).c_str());
  rmdir(dir.c_str());
}

}  // namespace
}  // namespace loadstone
