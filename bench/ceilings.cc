// What the machine can do without us, for the Python benchmarks to call by ctypes in the same process and run: bare
// reads into memory, memory that was never touched, the state of the page cache. Plain C functions; times are measured
// by the caller. No part of the library is used.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kHugePage = 2 << 20;  // bytes
constexpr std::int64_t kBlock = 4096;       // bytes: whole blocks are what O_DIRECT reads

std::int64_t whole_pages(std::int64_t bytes) {
  constexpr auto kPage = static_cast<std::int64_t>(kHugePage);
  return std::max<std::int64_t>((bytes + kPage - 1) / kPage, 1) * kPage;
}

struct Work {
  int fd;
  std::int64_t offset, bytes, at;
};

bool read_all(int fd, char* to, std::int64_t bytes, std::int64_t offset) {
  while (bytes > 0) {
    const ssize_t n = ::pread(fd, to, static_cast<std::size_t>(bytes), offset);
    if (n <= 0) return false;
    to += n;
    offset += n;
    bytes -= n;
  }
  return true;
}

template <typename Body>
void on_threads(int threads, const Body& body) {
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(body);
  body();
  for (std::thread& thread : others) thread.join();
}

}  // namespace

extern "C" {

// Reads bytes [offsets[i], offsets[i] + sizes[i]) of each file behind one another to `to`, in windows handed out to
// `threads` threads. `direct`: whole blocks with O_DIRECT into a buffer a thread, which is all that a disk can be asked
// for; `to` may then be null. 0 = done.
int bare_read(const char* const* paths, const std::int64_t* offsets, const std::int64_t* sizes, int files, char* to,
              int threads, std::int64_t window, int direct) {
  std::vector<Work> work;
  std::vector<int> fds;
  std::int64_t at = 0;
  bool good = true;
  for (int f = 0; f < files; ++f) {
    const int fd = ::open(paths[f], O_RDONLY | O_CLOEXEC | (direct != 0 ? O_DIRECT : 0));
    good = good && fd >= 0;
    fds.push_back(fd);
    const std::int64_t begin = direct != 0 ? offsets[f] / kBlock * kBlock : offsets[f];
    const std::int64_t end = offsets[f] + sizes[f];
    for (std::int64_t o = begin; o < end; o += window)
      work.push_back({fd, o, std::min(window, end - o), at + o - begin});
    at += sizes[f];
  }
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{!good};
  on_threads(threads, [&] {
    const std::unique_ptr<void, decltype(&std::free)> own(
        direct != 0 ? std::aligned_alloc(kBlock, static_cast<std::size_t>(window)) : nullptr, &std::free);
    for (std::size_t i = next++; i < work.size() && !failed; i = next++) {
      const Work& w = work[i];
      if (direct != 0) {
        const std::int64_t blocks = (w.bytes + kBlock - 1) / kBlock * kBlock;
        if (::pread(w.fd, own.get(), static_cast<std::size_t>(blocks), w.offset) < w.bytes) failed = true;
      } else if (!read_all(w.fd, to + w.at, w.bytes, w.offset)) {
        failed = true;
      }
    }
  });
  for (const int fd : fds) {
    if (fd >= 0) ::close(fd);
  }
  return failed ? 1 : 0;
}

// Memory that nobody has touched, on huge pages where the system gives them.
char* fresh_memory(std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(whole_pages(bytes));
  void* map = ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(map);
  const std::size_t before = (kHugePage - begin % kHugePage) % kHugePage;
  if (before > 0) ::munmap(map, before);
  char* memory = static_cast<char*>(map) + before;
  ::munmap(memory + size, kHugePage - before);
  ::madvise(memory, size, MADV_HUGEPAGE);
  return memory;
}
void free_memory(char* memory, std::int64_t bytes) {
  ::munmap(memory, static_cast<std::size_t>(whole_pages(bytes)));
}

// Writes every page once, so that the machine has it.
void touch(std::int64_t bytes, int threads) {
  char* memory = fresh_memory(bytes);
  if (memory == nullptr) return;
  std::atomic<std::int64_t> next{0};
  on_threads(threads, [&] {
    constexpr auto kPage = static_cast<std::int64_t>(kHugePage);
    for (std::int64_t at = next.fetch_add(kPage); at < bytes; at = next.fetch_add(kPage)) {
      std::memset(memory + at, 1, static_cast<std::size_t>(std::min(kPage, bytes - at)));
    }
  });
  free_memory(memory, bytes);
}

// Pages of the file in the page cache and pages of the file: by mincore. -1 = unknown.
std::int64_t resident_pages(const char* path, std::int64_t* pages) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat info {};
  std::int64_t found = -1;
  *pages = 0;
  if (::fstat(fd, &info) == 0) {
    *pages = (info.st_size + kBlock - 1) / kBlock;
    std::vector<unsigned char> bits(static_cast<std::size_t>(*pages));
    void* map = info.st_size == 0
                    ? nullptr
                    : ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (map == nullptr) {
      found = 0;
    } else if (map != MAP_FAILED) {
      if (::mincore(map, static_cast<std::size_t>(info.st_size), bits.data()) == 0) {
        found = std::count_if(bits.begin(), bits.end(), [](unsigned char bit) { return (bit & 1U) != 0; });
      }
      ::munmap(map, static_cast<std::size_t>(info.st_size));
    }
  }
  ::close(fd);
  return found;
}

// Reads all of the memory once and adds it up.
std::uint64_t read_memory(const char* memory, std::int64_t bytes, int threads) {
  std::atomic<std::uint64_t> total{0};
  std::atomic<int> number{0};
  on_threads(threads, [&] {
    const int t = number++;
    const std::int64_t from = bytes / 64 * t / threads * 64;
    const std::int64_t to = bytes / 64 * (t + 1) / threads * 64;
    using V = std::uint64_t __attribute__((vector_size(64), aligned(1), may_alias));
    V sum[4] = {};
    std::int64_t at = from;
    for (; at + 256 <= to; at += 256) {
      for (int k = 0; k < 4; ++k) sum[k] += *reinterpret_cast<const V*>(memory + at + 64 * k);
    }
    for (int k = 1; k < 4; ++k) sum[0] += sum[k];
    std::uint64_t all = 0;
    for (int k = 0; k < 8; ++k) all += sum[0][k];
    total += all;
  });
  return total;
}

}  // extern "C"
