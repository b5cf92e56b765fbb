#include "loadstone/format/hdf5_filters.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone::hdf5 {

namespace {

using Bytes = std::span<const std::byte>;

std::vector<std::string_view> words_of(std::string_view chain) {
  std::vector<std::string_view> out;
  while (!chain.empty()) {
    const std::size_t blank = std::min(chain.find(' '), chain.size());
    if (blank > 0) out.push_back(chain.substr(0, blank));
    chain.remove_prefix(std::min(blank + 1, chain.size()));
  }
  return out;
}

/// HDF5's: sums over big-endian pairs of bytes.
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

/// The bytes without their checksum.
Bytes checked(Bytes data) {
  if (data.size() < 4) throw data_error(cat("a checksum of 4 bytes is missing: found ", data.size(), " bytes"));
  const Bytes body = data.first(data.size() - 4);
  std::uint32_t stored = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    stored |= std::to_integer<std::uint32_t>(data[body.size() + k]) << (8 * k);
  }
  const std::uint32_t found = fletcher32(body);
  // HDF5 before 1.6.3 wrote the bytes of each half the other way round on little-endian machines.
  const std::uint32_t old = ((found & 0x00ff00ffU) << 8) | ((found & 0xff00ff00U) >> 8);
  if (stored != found && stored != old) {
    throw data_error(cat("fletcher32 checksum: expected ", stored, ", found ", found, " (the chunk is damaged)"));
  }
  return body;
}

void inflate(Bytes data, std::span<std::byte> out) {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> kDecompressor(libdeflate_alloc_decompressor());
  if (!kDecompressor) throw Error(ErrorKind::system, "out of memory for a decompressor");
  std::size_t got = 0;
  const auto result =
      libdeflate_zlib_decompress(kDecompressor.get(), data.data(), data.size(), out.data(), out.size(), &got);
  if (result == LIBDEFLATE_SUCCESS && got == out.size()) return;
  throw data_error(result == LIBDEFLATE_BAD_DATA
                       ? cat("damaged deflate stream of ", data.size(), " bytes")
                       : cat("deflate stream of another length: expected ", out.size(), " bytes out of ", data.size(),
                             result == LIBDEFLATE_SUCCESS ? cat(", found ", got) : std::string(", found more")));
}

template <std::size_t kItem>
void unshuffle_items(const std::byte* from, std::size_t count, std::byte* to) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kItem; ++b) to[i * kItem + b] = from[b * count + i];
  }
}

void unshuffle(Bytes data, std::size_t item, std::span<std::byte> out) {
  const std::size_t count = data.size() / item;
  switch (item) {
    case 2: unshuffle_items<2>(data.data(), count, out.data()); break;
    case 4: unshuffle_items<4>(data.data(), count, out.data()); break;
    case 8: unshuffle_items<8>(data.data(), count, out.data()); break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t b = 0; b < item; ++b) out[i * item + b] = data[b * count + i];
      }
  }
  std::copy(data.begin() + static_cast<std::ptrdiff_t>(count * item), data.end(),
            out.begin() + static_cast<std::ptrdiff_t>(count * item));
}

std::size_t item_of(std::string_view word) {
  std::int64_t item = 0;
  if (!parse_int(word.substr(word.find(':') + 1), item) || item < 1) throw internal_error(cat("filter ", word));
  return static_cast<std::size_t>(item);
}

}  // namespace

void undo_filters(std::string_view chain, std::span<const std::byte> stored, std::span<std::byte> out) {
  const std::vector<std::string_view> words = words_of(chain);
  Bytes data = stored;
  std::vector<std::byte> scratch, inflated;
  for (std::size_t k = words.size(); k-- > 0;) {
    if (words[k] == "fletcher32") {
      data = checked(data);
    } else if (words[k] == "deflate") {
      // What went in: the elements, and the checksums added before.
      const auto before = static_cast<std::size_t>(
          std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(k), "fletcher32"));
      std::span<std::byte> to = out;
      if (k > 0) {
        inflated.resize(out.size() + 4 * before);
        to = inflated;
      }
      inflate(data, to);
      data = to;
    } else {
      if (data.data() == out.data()) throw internal_error("two filters in one buffer");
      std::span<std::byte> to = out;
      if (k > 0 || data.size() != out.size()) {
        scratch.resize(data.size());
        to = scratch;
      }
      unshuffle(data, item_of(words[k]), to);
      data = to;
    }
  }
  if (data.size() != out.size()) {
    throw data_error(cat("a chunk of another length: expected ", out.size(), " bytes, found ", data.size()));
  }
  if (data.data() != out.data() && !out.empty()) std::memcpy(out.data(), data.data(), out.size());
}

}  // namespace loadstone::hdf5
