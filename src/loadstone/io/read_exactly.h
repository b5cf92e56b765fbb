#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace loadstone {

/// No single read(2) asks for more: Linux transfers at most this many bytes a call.
inline constexpr std::size_t kMaxReadCall = 0x7ffff000;

/// The calls that read_exactly makes. Behind it tests put short, interrupted and failing calls.
struct ReadCalls {
  /// pread(2) on the open file: bytes read, 0 at the end, -1 with errno.
  std::function<ssize_t(void* dst, std::size_t count, std::int64_t offset)> pread;
  /// After ESTALE: opens the path again. False if that is not the same file any more, or fails.
  std::function<bool()> reopen;
};

/// Fills dst from offset_bytes, however many calls it takes: continues after partial reads, EINTR and EAGAIN, and after
/// one ESTALE. Error{data} at the end of the file (path, offset, wanted, got), Error{system} for any other errno.
void read_exactly(const ReadCalls& calls, std::string_view path, std::int64_t offset_bytes, std::span<std::byte> dst);

}  // namespace loadstone
