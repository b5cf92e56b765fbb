#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/io/byte_source.h"
#include "loadstone/io/pread_source.h"

namespace loadstone {

namespace {

constexpr std::int64_t kShortestFile = 1 << 20;       // bytes: below, one more open costs more than it gains
constexpr std::size_t kShortestRead = 256 << 10;      // bytes: below, the cache's read-ahead is worth more
constexpr std::size_t kBlock = std::size_t{1} << 20;  // bytes of one bounce buffer, and of one request through it
constexpr std::int64_t kTrial = 16 << 20;             // bytes: a rate measured over fewer says nothing
// A buffered read takes what is cached at five times the speed of a disk and the rest a little slower than a direct
// read does: it wins from about a quarter on.
constexpr double kResidentShare = 0.25;

#ifndef STATX_DIOALIGN  // kernel headers before 6.1
#define STATX_DIOALIGN 0x00002000U
#endif

/// How fast files that are not in the cache were read on one file system, past the cache and through it: which is
/// faster depends on the disk, on its host's cache and on the read-ahead. In bytes a second of one reader, while others
/// read beside it.
class ColdRates {
 public:
  /// The way to read the next file: both by turns until both are known, then the faster.
  bool direct_next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool known = bytes_[0] >= kTrial && bytes_[1] >= kTrial;
    const bool direct = known ? rate(1) >= rate(0) : files_[1] <= files_[0];
    ++files_[direct ? 1 : 0];
    return direct;
  }
  void add(bool direct, std::size_t bytes, std::chrono::steady_clock::duration time) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bytes_[direct ? 1 : 0] += static_cast<std::int64_t>(bytes);
    seconds_[direct ? 1 : 0] += std::chrono::duration<double>(time).count();
  }
  static ColdRates& of(dev_t device) {
    static std::mutex mutex;
    static std::map<dev_t, ColdRates> all;
    const std::lock_guard<std::mutex> lock(mutex);
    return all[device];
  }

 private:
  double rate(std::size_t way) const { return static_cast<double>(bytes_[way]) / std::max(seconds_[way], 1e-9); }

  std::mutex mutex_;
  std::array<std::int64_t, 2> files_{}, bytes_{};  // [0] buffered, [1] direct
  std::array<double, 2> seconds_{};
};

/// What a direct read of a file must be aligned to.
struct Alignment {
  std::size_t memory = 4096, offset = 4096;  ///< bytes; powers of two. 0 = no direct reads
};

Alignment alignment_of(int fd) {
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 || (info.stx_mask & STATX_DIOALIGN) == 0) return {};
  // The two fields behind stx_mnt_id, which older headers call spare.
  std::array<std::uint32_t, 2> align{};
  static_assert(offsetof(struct statx, stx_mnt_id) == 144, "the layout of the kernel's struct statx");
  std::memcpy(align.data(), reinterpret_cast<const char*>(&info) + 152, sizeof align);
  if (align[0] == 0 || align[1] == 0) return {0, 0};
  const std::size_t memory = align[0];
  const std::size_t offset = align[1];
  const auto power = [](std::size_t n) { return (n & (n - 1)) == 0; };
  return power(memory) && power(offset) && std::max(memory, offset) <= 65536 ? Alignment{memory, offset} : Alignment{};
}

/// Share of the file's pages in the page cache: from cachestat(2), which only owners and writers may ask; -1 when it
/// does not answer.
double cachestat_share(int fd, std::int64_t size) {
#ifndef __NR_cachestat
  constexpr long kCachestat = 451;  // the same on every architecture
#else
  constexpr long kCachestat = __NR_cachestat;
#endif
  struct {
    std::uint64_t offset, bytes;
  } range{0, 0};  // 0 bytes: to the end
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } found{};
  if (::syscall(kCachestat, fd, &range, &found, 0U) != 0) return -1;
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  return static_cast<double>(found.cached) * static_cast<double>(page) / static_cast<double>(size);
}

/// The same by reading one byte in so many places, if that takes no disk.
double sampled_share(int fd, std::int64_t size) {
  constexpr std::int64_t kSamples = 16;
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);  // or a miss would start a read-ahead
  std::int64_t resident = 0;
  for (std::int64_t k = 0; k < kSamples; ++k) {
    char byte = 0;
    iovec into{&byte, 1};
    const ssize_t n = ::preadv2(fd, &into, 1, (2 * k + 1) * (size / (2 * kSamples)), RWF_NOWAIT);
    if (n < 0 && errno != EAGAIN) resident = kSamples;  // a file system that cannot tell: buffered
    if (n == 1) ++resident;
  }
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL);
  return static_cast<double>(std::min(resident, kSamples)) / kSamples;
}

double resident_share(int fd, std::int64_t size) {
  const double exact = cachestat_share(fd, size);
  return exact >= 0 ? exact : sampled_share(fd, size);
}

}  // namespace

/// Aligned buffers, as many as reads are in flight.
class ResidencySources::Blocks {
 public:
  using Block = std::unique_ptr<std::byte, decltype(&std::free)>;
  Block take() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!idle_.empty()) {
        Block block = std::move(idle_.back());
        idle_.pop_back();
        return block;
      }
    }
    return {static_cast<std::byte*>(std::aligned_alloc(65536, kBlock)), &std::free};
  }
  void give_back(Block block) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(block));
  }

 private:
  std::mutex mutex_;
  std::vector<Block> idle_;
};

namespace {

/// A file that is not in the page cache. Its long reads are timed. Read past the cache, whole blocks go straight to
/// where they belong when memory and file are aligned alike, else through a bounce buffer; what a file system refuses
/// is read buffered.
template <typename Blocks>
class ColdSource final : public ByteSource {
 public:
  /// direct: without a number when the file is to be read through the cache.
  ColdSource(std::unique_ptr<PreadSource> buffered, Descriptor direct, Alignment align, Blocks& blocks,
             ColdRates& rates)
      : buffered_(std::move(buffered)),
        direct_(std::move(direct)),
        align_(align),
        blocks_(blocks),
        rates_(rates),
        refused_(direct_.get() < 0) {}

  void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
    if (dst.size() < kShortestRead) {
      buffered_->read(offset_bytes, dst);
      return;
    }
    const bool past = direct();
    const auto begin = std::chrono::steady_clock::now();
    if (past) {
      read_past(offset_bytes, dst);
    } else {
      buffered_->read(offset_bytes, dst);
    }
    if (past == direct()) rates_.add(past, dst.size(), std::chrono::steady_clock::now() - begin);
  }
  FileStamp stamp() const override { return buffered_->stamp(); }
  std::string_view path() const override { return buffered_->path(); }
  bool direct() const override { return !refused_.load(std::memory_order_relaxed); }

 private:
  static std::size_t down(std::size_t n, std::size_t to) { return n & ~(to - 1); }

  void read_past(std::int64_t offset_bytes, std::span<std::byte> dst) {
    auto block = blocks_.take();
    ReadCalls calls;
    calls.pread = [&](void* to, std::size_t count, std::int64_t offset) {
      return some(block.get(), static_cast<std::byte*>(to), count, offset);
    };
    read_exactly(calls, path(), offset_bytes, dst);
    blocks_.give_back(std::move(block));
  }

  /// As pread(2), of which it is one call.
  ssize_t some(std::byte* block, std::byte* to, std::size_t count, std::int64_t offset) {
    const auto at = static_cast<std::size_t>(offset);
    const std::size_t skip = at - down(at, align_.offset);
    const bool fits = skip == 0 && reinterpret_cast<std::uintptr_t>(to) % align_.memory == 0 && count >= align_.offset;
    if (fits) return checked(::pread(direct_.get(), to, down(count, align_.offset), offset), to, count, offset);
    if (block == nullptr) return ::pread(buffered_->descriptor(), to, count, offset);
    // Rounded up past the last byte wanted: at the end of the file the answer is short.
    const std::size_t wanted = std::min(skip + count, kBlock);
    const std::size_t whole = down(wanted + align_.offset - 1, align_.offset);
    const ssize_t n = ::pread(direct_.get(), block, whole, offset - static_cast<std::int64_t>(skip));
    if (n < 0) return checked(n, to, count, offset);
    const auto got = static_cast<std::size_t>(n);
    if (got <= skip) return 0;
    const std::size_t useful = std::min(got - skip, wanted - skip);
    std::memcpy(to, block + skip, useful);
    return static_cast<ssize_t>(useful);
  }

  /// Accepted when it was opened and refused when it is read: buffered from then on.
  ssize_t checked(ssize_t n, std::byte* to, std::size_t count, std::int64_t offset) {
    if (n >= 0 || (errno != EINVAL && errno != EOPNOTSUPP)) return n;
    refused_.store(true, std::memory_order_relaxed);
    return ::pread(buffered_->descriptor(), to, count, offset);
  }

  std::unique_ptr<PreadSource> buffered_;
  Descriptor direct_;
  Alignment align_;
  Blocks& blocks_;
  ColdRates& rates_;
  std::atomic<bool> refused_;
};

}  // namespace

ResidencySources::ResidencySources() : blocks_(std::make_unique<Blocks>()) {}
ResidencySources::~ResidencySources() = default;

std::int64_t ResidencySources::files_direct() const {
  return direct_.load();
}

std::unique_ptr<ByteSource> ResidencySources::open(const std::string& path) {
  std::unique_ptr<PreadSource> file = PreadSource::open(path);
  const std::int64_t size = file->stamp().size_bytes;
  if (size < kShortestFile || resident_share(file->descriptor(), size) >= kResidentShare) return file;
  const Alignment align = alignment_of(file->descriptor());
  struct stat info {};
  if (align.memory == 0 || ::fstat(file->descriptor(), &info) != 0) return file;
  ColdRates& rates = ColdRates::of(info.st_dev);
  int fd = -1;
  if (rates.direct_next()) {
    // By its number: the very file that is open, whatever has become of the path.
    fd = ::open(cat("/proc/self/fd/", file->descriptor()).c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  }
  if (fd >= 0) direct_.fetch_add(1);
  return std::make_unique<ColdSource<Blocks>>(std::move(file), Descriptor(fd), align, *blocks_, rates);
}

}  // namespace loadstone
