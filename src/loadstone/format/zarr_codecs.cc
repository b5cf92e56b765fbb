#include "loadstone/format/zarr_codecs.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/codecs.h"

namespace loadstone::zarr {

namespace {

using codecs::Bytes;
using codecs::Room;
using Json = nlohmann::json;

std::uint64_t load(const std::byte* from, int bytes, bool big, bool sign) {
  std::uint64_t out = 0;
  for (int k = 0; k < bytes; ++k) {
    const int at = big ? k : bytes - 1 - k;
    out = out << 8U | std::to_integer<std::uint64_t>(from[at]);
  }
  const unsigned spare = 64U - 8U * static_cast<unsigned>(bytes);
  return sign ? static_cast<std::uint64_t>(static_cast<std::int64_t>(out << spare) >> spare) : out;
}

void store(std::uint64_t value, std::byte* to, int bytes, bool big) {
  for (int k = 0; k < bytes; ++k, value >>= 8U) to[big ? bytes - 1 - k : k] = static_cast<std::byte>(value & 0xffU);
}

template <std::floating_point T>
void sum_floats(const Step& step, Bytes stored, Room out) {
  T sum = 0;
  for (std::size_t at = 0; at < out.size(); at += sizeof(T)) {
    T next;
    std::memcpy(&next, stored.data() + at, sizeof next);
    if (step.big) swap_in_place(reinterpret_cast<std::byte*>(&next), sizeof next, sizeof next);
    sum = at == 0 ? next : sum + next;
    next = sum;
    if (step.made_big) swap_in_place(reinterpret_cast<std::byte*>(&next), sizeof next, sizeof next);
    std::memcpy(out.data() + at, &next, sizeof next);
  }
}

std::size_t undo_delta(const Step& step, Bytes stored, Room out) {
  const auto item = static_cast<std::size_t>(step.item), made_item = static_cast<std::size_t>(step.made_item);
  const std::size_t count = stored.size() / item;
  if (stored.size() % item != 0 || count > out.size() / made_item) {
    throw data_error(cat("a chunk of ", stored.size(), " bytes of differences of ", item, " bytes: expected ",
                         out.size() / made_item, " of them"));
  }
  out = out.first(count * made_item);
  if (step.is_float && step.made_item == 4) {
    sum_floats<float>(step, stored, out);
  } else if (step.is_float) {
    sum_floats<double>(step, stored, out);
  } else {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += load(stored.data() + i * item, step.item, step.big, step.is_signed);
      store(sum, out.data() + i * made_item, step.made_item, step.made_big);
    }
  }
  return out.size();
}

std::size_t undo(const Step& step, Bytes stored, Room out) {
  switch (step.codec) {
    case Codec::zlib: return codecs::unpack_zlib(stored, out);
    case Codec::gzip: return codecs::unpack_gzip(stored, out);
    case Codec::zstd: return codecs::unpack_zstd(stored, out);
    case Codec::blosc: return codecs::unpack_blosc(stored, out);
    case Codec::lz4: return codecs::unpack_lz4_sized(stored, out);
    case Codec::bz2: return codecs::unpack_bzip2(stored, out);
    case Codec::delta: return undo_delta(step, stored, out);
    case Codec::shuffle:
      if (stored.size() > out.size()) break;
      codecs::unshuffle(stored, static_cast<std::size_t>(step.item), out.first(stored.size()));
      return stored.size();
    case Codec::crc32c: break;  // takes nothing but the end off
  }
  throw data_error(cat("a chunk of ", stored.size(), " bytes: expected at most ", out.size()));
}

/// The bytes before their checksum.
Bytes check_crc(Bytes stored) {
  if (stored.size() < 4) throw data_error(cat("a checksum of 4 bytes is missing: found ", stored.size(), " bytes"));
  const Bytes body = stored.first(stored.size() - 4);
  const auto expected = static_cast<std::uint32_t>(load(stored.data() + body.size(), 4, false, false));
  if (const std::uint32_t found = codecs::crc32c(body); found != expected) {
    throw data_error(cat("crc32c checksum: expected ", expected, ", found ", found, " (the chunk is damaged)"));
  }
  return body;
}

/// The most that the input of a codec in the middle of a chain can take: what codecs before it made of `bytes` bytes.
std::size_t room_between(const Chain& chain, std::size_t step, std::size_t bytes) {
  bool packed = false;
  std::size_t room = bytes;
  for (std::size_t k = 0; k < step; ++k) {
    const Step& each = chain.steps[k];
    if (each.codec == Codec::delta) {
      room = room / static_cast<std::size_t>(each.made_item) * static_cast<std::size_t>(each.item);
    } else if (each.codec == Codec::crc32c) {
      room += 4;
    } else if (each.codec != Codec::shuffle) {
      packed = true;
    }
  }
  return packed ? room + room / 16 + (std::size_t{1} << 16U) : room;  // what cannot be packed grows a little
}

void unpack(const Chain& chain, Bytes stored, Room out) {
  Bytes now = stored;
  int slot = 0;
  for (std::size_t k = chain.steps.size(); k-- > 0;) {
    const Step& step = chain.steps[k];
    if (step.codec == Codec::crc32c) {
      now = check_crc(now);
      continue;
    }
    const Room to = k == 0 ? out : codecs::scratch(slot, room_between(chain, k, out.size()));
    slot = 1 - slot;
    now = to.first(undo(step, now, to));
  }
  if (now.size() != out.size())
    throw data_error(cat("a chunk unpacks to ", now.size(), " bytes: expected ", out.size()));
  if (now.data() != out.data() && !out.empty()) std::memcpy(out.data(), now.data(), out.size());
}

}  // namespace

bool is_c_order(const std::vector<int>& dims) {
  return std::is_sorted(dims.begin(), dims.end());
}

bool is_f_order(const std::vector<int>& dims) {
  return std::is_sorted(dims.rbegin(), dims.rend());
}

bool is_plain(const Chain& chain) {
  return chain.steps.empty() && chain.fill.empty() && (is_c_order(chain.dims) || is_f_order(chain.dims));
}

std::string to_text(const Chain& chain) {
  Json steps = Json::array();
  for (const Step& step : chain.steps) {
    steps.push_back({static_cast<int>(step.codec), step.item, step.made_item, step.is_signed, step.is_float, step.big,
                     step.made_big});
  }
  std::vector<int> fill;
  for (const std::byte byte : chain.fill) fill.push_back(std::to_integer<int>(byte));
  return Json{{"dims", chain.dims}, {"big", chain.big}, {"steps", steps}, {"fill", fill}}.dump();
}

Chain parse_chain(const std::string& text) {
  const Json json = Json::parse(text);
  Chain out;
  out.dims = json.at("dims").get<std::vector<int>>();
  out.big = json.at("big").get<bool>();
  for (const Json& step : json.at("steps")) {
    out.steps.push_back({static_cast<Codec>(step.at(0).get<int>()), step.at(1).get<int>(), step.at(2).get<int>(),
                         step.at(3).get<bool>(), step.at(4).get<bool>(), step.at(5).get<bool>(),
                         step.at(6).get<bool>()});
  }
  for (const int byte : json.at("fill").get<std::vector<int>>()) out.fill.push_back(static_cast<std::byte>(byte));
  return out;
}

void decode_chunk(const Chain& chain, const Shape& shape, DType dtype, Bytes stored, Room out) {
  if (!chain.fill.empty()) {
    for (std::size_t at = 0; at < out.size(); ++at) out[at] = chain.fill[at % chain.fill.size()];
    return;
  }
  const std::int64_t swap = chain.big ? dtype.swap_bytes() : 1;
  if (is_c_order(chain.dims)) {
    unpack(chain, stored, out);
    if (swap > 1) swap_in_place(out.data(), static_cast<std::int64_t>(out.size()), swap);
    return;
  }
  const Room turned = codecs::scratch(2, out.size());
  unpack(chain, stored, turned);
  const int ndim = shape.size();
  StridedBytes from{turned.data(), Dims::filled(ndim, 0)}, to{out.data(), Dims::filled(ndim, 0)};
  std::int64_t step = dtype.itemsize(), plain = dtype.itemsize();
  for (int i = ndim; i-- > 0;) {
    const int d = chain.dims[static_cast<std::size_t>(i)];
    from.strides_bytes[d] = step;
    to.strides_bytes[i] = plain;
    step *= shape[d];
    plain *= shape[i];
  }
  strided_copy(to, from, shape, dtype.itemsize(), swap);
}

}  // namespace loadstone::zarr
