#include "loadstone/array/memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {
constexpr std::int64_t kHugePage = 2 << 20;  // bytes
constexpr std::int64_t kMapFrom = 4 << 20;   // smaller blocks come from malloc
constexpr std::size_t kAlignment = 64;       // bytes

[[noreturn]] void refuse(std::int64_t bytes, Place place) {
  ErrorFacts facts;
  facts.expected = cat(bytes, " bytes");
  facts.os_error = ENOMEM;
  throw Error(ErrorKind::system,
              cat(to_string(place), ": cannot allocate ", format_bytes(bytes), " (", bytes, " bytes) of host memory"),
              std::move(facts));
}
}  // namespace

Memory::Memory(std::byte* base, std::int64_t bytes, Place place, bool readonly, Release release)
    : base_(base), bytes_(bytes), place_(place), readonly_(readonly), release_(std::move(release)) {}

Memory::~Memory() {
  if (release_) release_(base_, bytes_);
}

std::shared_ptr<Memory> Memory::allocate_host(std::int64_t bytes, Place place) {
  if (bytes < 0) throw internal_error(cat("allocation of ", bytes, " bytes"));
  if (bytes == 0) return std::make_shared<Memory>(nullptr, 0, place, false, nullptr);
  if (bytes < kMapFrom) {
    const auto rounded = (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
    auto* base = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
    if (base == nullptr) refuse(bytes, place);
    return std::make_shared<Memory>(base, bytes, place, false, [](std::byte* p, std::int64_t) { std::free(p); });
  }
  // A little more than asked, so that the block can begin on a huge page: first touch is then 512 times cheaper.
  if (bytes > INT64_MAX - 2 * kHugePage) refuse(bytes, place);
  const auto mapped = static_cast<std::size_t>((bytes + 4095) / 4096 * 4096 + kHugePage);
  void* map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) refuse(bytes, place);
  const auto address = reinterpret_cast<std::uintptr_t>(map);
  const std::uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  auto* base = reinterpret_cast<std::byte*>(aligned);
  madvise(base, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // advice only: a refusal changes speed, not bytes
  return std::make_shared<Memory>(base, bytes, place, false,
                                  [map, mapped](std::byte*, std::int64_t) { munmap(map, mapped); });
}

}  // namespace loadstone
