// What codecs do to bytes without unpacking them: shuffles and checksums.

#include <algorithm>
#include <array>
#include <cstring>

#include "loadstone/format/codecs.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#include <nmmintrin.h>
#endif

namespace loadstone::codecs {

namespace {

#if defined(__SSE2__)
/// 16 elements at a time: each round interleaves the first half of the registers with the second.
template <std::size_t kItem>
std::size_t unshuffle_sse2(const std::byte* from, std::size_t count, std::byte* to) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    __m128i now[kItem], next[kItem];
    for (std::size_t b = 0; b < kItem; ++b) {
      now[b] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + b * count + i));
    }
    for (std::size_t round = 1; round < kItem; round *= 2) {
      for (std::size_t k = 0; k < kItem / 2; ++k) {
        next[2 * k] = _mm_unpacklo_epi8(now[k], now[k + kItem / 2]);
        next[2 * k + 1] = _mm_unpackhi_epi8(now[k], now[k + kItem / 2]);
      }
      std::copy(next, next + kItem, now);
    }
    for (std::size_t b = 0; b < kItem; ++b) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * kItem + 16 * b), now[b]);
    }
  }
  return i;
}
#endif

/// Elements done.
std::size_t unshuffle_fast(const std::byte* from, std::size_t count, std::size_t item, std::byte* to) {
#if defined(__SSE2__)
  switch (item) {
    case 2: return unshuffle_sse2<2>(from, count, to);
    case 4: return unshuffle_sse2<4>(from, count, to);
    case 8: return unshuffle_sse2<8>(from, count, to);
    case 16: return unshuffle_sse2<16>(from, count, to);
    default: break;
  }
#endif
  return 0;
}

constexpr std::uint32_t kCastagnoli = 0x82f63b78;  // reflected

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> out{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kCastagnoli : 0U);
    out[i] = crc;
  }
  return out;
}

std::uint32_t crc_by_table(std::uint32_t crc, Bytes data) {
  static constexpr auto kTable = crc_table();
  for (const std::byte byte : data) crc = (crc >> 8) ^ kTable[(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc_by_sse42(std::uint32_t crc, Bytes data) {
  std::uint64_t wide = crc;
  for (; data.size() >= 8; data = data.subspan(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  return crc_by_table(static_cast<std::uint32_t>(wide), data);
}
#endif

}  // namespace

void unshuffle(Bytes data, std::size_t item, Room out) {
  const std::size_t count = item == 0 ? 0 : data.size() / item;
  for (std::size_t i = unshuffle_fast(data.data(), count, item, out.data()); i < count; ++i) {
    for (std::size_t b = 0; b < item; ++b) out[i * item + b] = data[b * count + i];
  }
  const std::size_t done = count * item;
  if (done < data.size()) std::memcpy(out.data() + done, data.data() + done, data.size() - done);
}

std::uint32_t crc32c(Bytes data) {
#if defined(__x86_64__)
  static const bool kFast = __builtin_cpu_supports("sse4.2");
  if (kFast) return ~crc_by_sse42(~0U, data);
#endif
  return ~crc_by_table(~0U, data);
}

std::uint32_t fletcher32(Bytes data) {
  std::uint32_t low = 0, high = 0;
  std::size_t i = 0;
  const auto byte = [&](std::size_t k) { return std::to_integer<std::uint32_t>(data[k]); };
  for (std::size_t pairs = data.size() / 2; pairs > 0;) {
    const std::size_t block = std::min<std::size_t>(pairs, 360);  // so many cannot overflow
    pairs -= block;
    for (const std::size_t end = i + 2 * block; i < end; i += 2) {
      low += (byte(i) << 8) | byte(i + 1);
      high += low;
    }
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
  }
  if (i < data.size()) {
    low += byte(i) << 8;
    high += low;
    low = (low & 0xffff) + (low >> 16);
    high = (high & 0xffff) + (high >> 16);
  }
  low = (low & 0xffff) + (low >> 16);
  high = (high & 0xffff) + (high >> 16);
  return (high << 16) | low;
}

}  // namespace loadstone::codecs
