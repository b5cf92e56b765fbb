// npz: a zip archive of .npy files. Stored members are read in place; deflated ones are unpacked whole.

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/zip.h"

namespace loadstone {

extern const Format npy_format;

namespace {

bool recognise(std::span<const std::byte> head) {
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  if (text.starts_with("PK\x05\x06")) return true;  // without members
  return text.starts_with("PK\x03\x04") && text.find(".npy") != std::string_view::npos;
}

/// A raw deflate stream, unpacked piece by piece.
class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) throw Error(ErrorKind::system, "out of memory for zlib");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` as far as `stored` reaches; the number of bytes made. What is taken is cut off `stored`.
  std::size_t unpack(std::span<const std::byte>& stored, std::span<std::byte> out) {
    std::size_t made = 0;
    while (made < out.size() && !ended_) {
      // zlib counts in 32 bits.
      constexpr std::size_t kMost = std::size_t{1} << 30;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(stored.data()));
      stream_.avail_in = static_cast<uInt>(std::min(stored.size(), kMost));
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + made);
      stream_.avail_out = static_cast<uInt>(std::min(out.size() - made, kMost));
      const uInt in = stream_.avail_in, room = stream_.avail_out;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      stored = stored.subspan(in - stream_.avail_in);
      made += room - stream_.avail_out;
      ended_ = result == Z_STREAM_END;
      if (result != Z_OK && !ended_ && result != Z_BUF_ERROR) {
        throw data_error(cat("corrupt deflate stream: ", stream_.msg == nullptr ? "damaged" : stream_.msg));
      }
      if (!ended_ && in == stream_.avail_in && room == stream_.avail_out) break;  // needs more input
    }
    return made;
  }
  /// True when the stream ends here, with nothing more to come.
  bool at_end(std::span<const std::byte> stored) {
    std::byte one{};
    return ended_ || (unpack(stored, {&one, 1}) == 0 && ended_);
  }

 private:
  z_stream stream_{};
  bool ended_ = false;
};

/// A member as the file that it was: what discover() of npy reads is unpacked as far as it is read.
class MemberSource final : public ByteSource {
 public:
  MemberSource(ByteSource& archive, const ZipMember& member)
      : archive_(archive), member_(member), path_(cat(archive.path(), "/", member.name)) {}

  void read(std::int64_t offset_bytes, std::span<std::byte> dst) override {
    if (offset_bytes < 0 || static_cast<std::int64_t>(dst.size()) > member_.bytes - offset_bytes) {
      throw file_error(path_, "truncated: a read behind the member's end");
    }
    if (!member_.deflated) {
      archive_.read(member_.offset_bytes + offset_bytes, dst);
      return;
    }
    unpack_to(offset_bytes + static_cast<std::int64_t>(dst.size()));
    std::memcpy(dst.data(), front_.data() + offset_bytes, dst.size());
  }
  FileStamp stamp() const override { return {member_.bytes, archive_.stamp().mtime_ns}; }
  std::string_view path() const override { return path_; }

 private:
  /// Headers are short, so that unpacking anew from the front costs less than keeping a stream.
  void unpack_to(std::int64_t bytes) {
    if (static_cast<std::int64_t>(front_.size()) >= bytes) return;
    front_.resize(static_cast<std::size_t>(bytes));
    Inflater inflater;
    std::size_t made = 0;
    constexpr std::int64_t kSlice = 4096;
    for (std::int64_t taken = 0; made < front_.size() && taken < member_.stored_bytes; taken += kSlice) {
      std::vector<std::byte> slice(static_cast<std::size_t>(std::min(kSlice, member_.stored_bytes - taken)));
      archive_.read(member_.offset_bytes + taken, slice);
      std::span<const std::byte> stored = slice;
      made += inflater.unpack(stored, std::span(front_).subspan(made));
    }
    if (made < front_.size())
      throw file_error(path_, cat("truncated: it unpacks to ", made, " bytes, expected ", member_.bytes));
  }

  ByteSource& archive_;
  const ZipMember& member_;
  std::string path_;
  std::vector<std::byte> front_;
};

Header header_of(ByteSource& archive, const ZipMember& member, const ReadHints& hints) {
  MemberSource source(archive, member);
  ReadHints own = hints;
  own.arrays.clear();
  Header header = npy_format.discover(source, own).at(0);
  if (!member.deflated) {
    header.offset_bytes += member.offset_bytes;
    return header;
  }
  const nlohmann::json codec = {{"header", header.offset_bytes},
                                {"crc", member.crc},
                                {"big", header.byte_order == ByteOrder::big},
                                {"fortran", header.order == ElementOrder::f}};
  header.encoding = Encoding{"npz", codec.dump()};
  header.offset_bytes = member.offset_bytes;
  header.stored_bytes = member.stored_bytes;
  header.byte_order = ByteOrder::little;
  header.order = ElementOrder::c;
  return header;
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  std::vector<Header> out;
  std::vector<std::string> names;
  std::string left_out;
  const std::vector<ZipMember> members = read_zip_directory(source);
  for (const ZipMember& member : members) {
    constexpr std::string_view kSuffix = ".npy";
    if (member.name.ends_with('/')) continue;
    std::string name = member.name;
    if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
    names.push_back(name);
    const bool asked = !hints.arrays.empty() && is_wanted(hints.arrays, name);
    if (!asked && !hints.arrays.empty()) continue;
    try {
      if (!member.refusal.empty())
        throw file_error(source.path(), cat("member ", in_quotes(member.name), " ", member.refusal));
      if (!member.name.ends_with(kSuffix)) {
        throw file_error(source.path(), cat("member ", in_quotes(member.name), " is no npy file"));
      }
      out.push_back(header_of(source, member, hints));
      out.back().name = std::move(name);
    } catch (const Error& error) {
      // Object arrays and text lie beside numbers in real files; damage shows in what is asked for.
      if (asked || error.kind() != ErrorKind::data || members.size() == 1) throw;
      left_out += cat(left_out.empty() ? "left out: " : "; ", error.message());
    }
  }
  require_arrays(source.path(), hints.arrays, names);
  if (out.empty())
    throw file_error(source.path(),
                     left_out.empty() ? "is an npz file without arrays" : cat("no array can be loaded; ", left_out));
  if (!left_out.empty()) out.front().note += left_out;
  return out;
}

/// Elements as NumPy stored them into C order and native byte order.
void rearrange(const nlohmann::json& codec, const Shape& shape, DType dtype, std::span<std::byte> bytes) {
  const std::int64_t swap = codec.at("big").get<bool>() ? dtype.swap_bytes() : 1;
  if (!codec.at("fortran").get<bool>()) {
    if (swap > 1) swap_in_place(bytes.data(), static_cast<std::int64_t>(bytes.size()), swap);
    return;
  }
  std::vector<std::byte> stored(bytes.begin(), bytes.end());
  StridedBytes from{stored.data(), Dims::filled(shape.size(), 0)}, to{bytes.data(), Dims::filled(shape.size(), 0)};
  std::int64_t f = dtype.itemsize(), c = dtype.itemsize();
  for (int d = 0; d < shape.size(); ++d, f *= shape[d - 1]) from.strides_bytes[d] = f;
  for (int d = shape.size() - 1; d >= 0; --d, c *= shape[d + 1]) to.strides_bytes[d] = c;
  strided_copy(to, from, shape, dtype.itemsize(), swap);
}

void decode(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
            std::span<std::byte> out) {
  const nlohmann::json codec = nlohmann::json::parse(encoding.codec);
  std::vector<std::byte> header(codec.at("header").get<std::size_t>());
  Inflater inflater;
  std::size_t made = inflater.unpack(stored, header);
  made += inflater.unpack(stored, out);
  if (made != header.size() + out.size() || !inflater.at_end(stored)) {
    throw data_error(cat("a member unpacks to ", made, " bytes or more: expected ", header.size() + out.size()));
  }
  uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
  crc = crc32_z(crc, reinterpret_cast<const Bytef*>(out.data()), out.size());
  if (crc != codec.at("crc").get<std::uint32_t>()) throw data_error("the CRC-32 of a member does not match its bytes");
  rearrange(codec, piece.stored_shape, dtype, out);
}

}  // namespace

extern const Format npz_format;
const Format npz_format{"npz", {".npz"}, recognise, discover, decode};

}  // namespace loadstone
