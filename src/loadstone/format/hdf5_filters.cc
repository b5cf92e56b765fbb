#include "loadstone/format/hdf5_filters.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/codecs.h"

namespace loadstone::hdf5 {

namespace {

using codecs::Bytes;

std::vector<std::string_view> words_of(std::string_view chain) {
  std::vector<std::string_view> out;
  while (!chain.empty()) {
    const std::size_t blank = std::min(chain.find(' '), chain.size());
    if (blank > 0) out.push_back(chain.substr(0, blank));
    chain.remove_prefix(std::min(blank + 1, chain.size()));
  }
  return out;
}

/// The bytes without their checksum.
Bytes checked(Bytes data) {
  if (data.size() < 4) throw data_error(cat("a checksum of 4 bytes is missing: found ", data.size(), " bytes"));
  const Bytes body = data.first(data.size() - 4);
  std::uint32_t stored = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    stored |= std::to_integer<std::uint32_t>(data[body.size() + k]) << (8 * k);
  }
  const std::uint32_t found = codecs::fletcher32(body);
  // HDF5 before 1.6.3 wrote the bytes of each half the other way round on little-endian machines.
  const std::uint32_t old = ((found & 0x00ff00ffU) << 8) | ((found & 0xff00ff00U) >> 8);
  if (stored != found && stored != old) {
    throw data_error(cat("fletcher32 checksum: expected ", stored, ", found ", found, " (the chunk is damaged)"));
  }
  return body;
}

std::size_t item_of(std::string_view word) {
  std::int64_t item = 0;
  if (!parse_int(word.substr(word.find(':') + 1), item) || item < 1) throw internal_error(cat("filter ", word));
  return static_cast<std::size_t>(item);
}

using Unpack = std::size_t (*)(Bytes, codecs::Room);

struct Packer {
  int id;
  const char* word;
  Unpack unpack;
};

constexpr Packer kPackers[] = {{1, "deflate", codecs::unpack_zlib},       {307, "bzip2", codecs::unpack_bzip2},
                               {32000, "lzf", codecs::unpack_lzf},        {32001, "blosc", codecs::unpack_blosc},
                               {32004, "lz4", codecs::unpack_lz4_blocks}, {32015, "zstd", codecs::unpack_zstd}};

Unpack unpacker_of(std::string_view word) {
  for (const Packer& packer : kPackers) {
    if (word == packer.word) return packer.unpack;
  }
  throw internal_error(cat("filter ", word));
}

/// The most that the first `count` filters can make of `bytes` bytes.
std::size_t room_after(const std::vector<std::string_view>& words, std::size_t count, std::size_t bytes) {
  std::size_t sums = 0;
  bool packed = false;
  for (std::size_t k = 0; k < count; ++k) {
    sums += words[k] == "fletcher32" ? 4U : 0U;
    packed = packed || (words[k] != "fletcher32" && !words[k].starts_with("shuffle:"));
  }
  return bytes + sums + (packed ? bytes / 16 + (std::size_t{1} << 16U) : 0);  // what cannot be packed grows a little
}

}  // namespace

std::string filter_word(int id, std::span<const unsigned> values) {
  if (id == 2 && !values.empty() && values[0] > 0) return cat("shuffle:", values[0]);
  if (id == 3) return "fletcher32";
  for (const Packer& packer : kPackers) {
    if (packer.id == id) return packer.word;
  }
  return {};
}

void undo_filters(std::string_view chain, std::span<const std::byte> stored, std::span<std::byte> out) {
  const std::vector<std::string_view> words = words_of(chain);
  Bytes data = stored;
  int slot = 0;
  for (std::size_t k = words.size(); k-- > 0;) {
    if (words[k] == "fletcher32") {
      data = checked(data);
      continue;
    }
    const bool shuffled = words[k].starts_with("shuffle:");
    const std::size_t room = room_after(words, k, out.size());
    if (shuffled && data.size() > room) {
      throw data_error(cat("a chunk of another length: expected at most ", room, " bytes, found ", data.size()));
    }
    codecs::Room to = k == 0 ? out : codecs::scratch(slot, room);
    slot = 1 - slot;
    if (shuffled) {
      to = to.first(data.size());
      codecs::unshuffle(data, item_of(words[k]), to);
    } else {
      to = to.first(unpacker_of(words[k])(data, to));
    }
    data = to;
  }
  if (data.size() != out.size()) {
    throw data_error(cat("a chunk of another length: expected ", out.size(), " bytes, found ", data.size()));
  }
  if (data.data() != out.data() && !out.empty()) std::memcpy(out.data(), data.data(), out.size());
}

}  // namespace loadstone::hdf5
