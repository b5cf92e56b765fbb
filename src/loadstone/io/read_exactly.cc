#include "loadstone/io/read_exactly.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/io/byte_source.h"

namespace loadstone {

namespace {

std::atomic<std::int64_t> stale{0};

[[noreturn]] void end_of_file(std::string_view path, std::int64_t offset, std::size_t wanted, std::size_t got) {
  ErrorFacts facts;
  facts.file = std::string(path);
  facts.expected = cat(wanted, " bytes at offset ", offset);
  facts.found = cat(got, " bytes");
  throw data_error(cat("'", printable(path), "': the file ends inside a read at offset ", offset, ": expected ", wanted,
                       " bytes, found ", got),
                   std::move(facts));
}

}  // namespace

std::int64_t stale_retries() {
  return stale.load(std::memory_order_relaxed);
}
void count_stale_retry() {
  stale.fetch_add(1, std::memory_order_relaxed);
}

void read_exactly(const ReadCalls& calls, std::string_view path, std::int64_t offset_bytes, std::span<std::byte> dst) {
  bool retried_stale = false;
  std::size_t got = 0;
  while (got < dst.size()) {
    const std::size_t count = std::min(dst.size() - got, kMaxReadCall);
    const ssize_t n = calls.pread(dst.data() + got, count, offset_bytes + static_cast<std::int64_t>(got));
    if (n > 0) {
      got += static_cast<std::size_t>(n);
      continue;
    }
    if (n == 0) end_of_file(path, offset_bytes, dst.size(), got);
    const int why = errno;
    if (why == EINTR) continue;
    if (why == EAGAIN) {
      ::poll(nullptr, 0, 1);  // a millisecond, so that a file that is not ready does not cost a core
      continue;
    }
    if (why == ESTALE && !retried_stale) {
      retried_stale = true;
      count_stale_retry();
      if (!calls.reopen || calls.reopen()) continue;
    }
    throw os_error(why, path, cat("cannot read ", dst.size(), " bytes at offset ", offset_bytes));
  }
}

}  // namespace loadstone
