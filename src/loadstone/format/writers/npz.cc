// A zip archive of npy files, as numpy.savez and savez_compressed make it.

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

constexpr std::uint64_t kMax32 = 0xFFFFFFFFU;
constexpr std::uint64_t kMemberSlack = 1 << 20;  // what deflate may add to bytes that do not compress, and the header

struct Member {
  std::string name;
  std::uint64_t offset = 0, plain = 0, stored = 0;
  std::uint32_t crc = 0;
  bool wide = false;  ///< its sizes are in a zip64 field
};

/// Little-endian numbers, one after another.
class Record {
 public:
  Record& u16(std::uint64_t v) { return put(v, 2); }
  Record& u32(std::uint64_t v) { return put(v, 4); }
  Record& u64(std::uint64_t v) { return put(v, 8); }
  Record& text(const std::string& t) {
    bytes_ += t;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  Record& put(std::uint64_t v, int n) {
    for (int i = 0; i < n; ++i) bytes_.push_back(static_cast<char>((v >> (8 * i)) & 0xFFU));
    return *this;
  }
  std::string bytes_;
};

/// A raw deflate stream into a file.
class Deflater {
 public:
  Deflater(int level, FileWriter& out) : out_(out) {
    if (deflateInit2(&stream_, level < 0 ? Z_DEFAULT_COMPRESSION : std::min(level, 9), Z_DEFLATED, -MAX_WBITS, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw Error(ErrorKind::system, "out of memory for a compressor");
    }
  }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;
  ~Deflater() { deflateEnd(&stream_); }

  void add(std::span<const std::byte> bytes) { run(bytes, Z_NO_FLUSH); }
  std::uint64_t finish() {
    run({}, Z_FINISH);
    return written_;
  }

 private:
  void run(std::span<const std::byte> bytes, int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());  // a pull is far below 4 GiB
    do {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      deflate(&stream_, flush);
      const std::size_t n = buffer_.size() - stream_.avail_out;
      out_.write(buffer_.data(), n);
      written_ += n;
    } while (stream_.avail_out == 0);
  }

  FileWriter& out_;
  z_stream stream_{};
  std::array<Bytef, 1 << 16> buffer_{};
  std::uint64_t written_ = 0;
};

std::string local_header(const Member& m, bool deflated) {
  Record out;
  out.u32(0x04034B50).u16(m.wide ? 45 : 20).u16(0x800).u16(deflated ? 8 : 0);
  out.u16(0).u16(0x21);  // 1980-01-01: the same arrays give the same file
  out.u32(m.crc).u32(m.wide ? kMax32 : m.stored).u32(m.wide ? kMax32 : m.plain);
  out.u16(m.name.size()).u16(m.wide ? 20 : 0).text(m.name);
  if (m.wide) out.u16(1).u16(16).u64(m.plain).u64(m.stored);
  return out.bytes();
}

std::string directory_entry(const Member& m, bool deflated) {
  const bool wide = m.wide || m.offset >= kMax32;
  Record out;
  out.u32(0x02014B50).u16(0x314).u16(wide ? 45 : 20).u16(0x800).u16(deflated ? 8 : 0).u16(0).u16(0x21);
  out.u32(m.crc).u32(wide ? kMax32 : m.stored).u32(wide ? kMax32 : m.plain);
  out.u16(m.name.size()).u16(wide ? 28 : 0).u16(0).u16(0).u16(0).u32(0x81800000U).u32(wide ? kMax32 : m.offset);
  out.text(m.name);
  if (wide) out.u16(1).u16(24).u64(m.plain).u64(m.stored).u64(m.offset);
  return out.bytes();
}

std::string end_of_directory(std::uint64_t count, std::uint64_t offset, std::uint64_t size) {
  Record out;
  const bool wide = count >= 0xFFFF || offset + size >= kMax32;
  if (wide) {
    out.u32(0x06064B50).u64(44).u16(0x32D).u16(45).u32(0).u32(0).u64(count).u64(count).u64(size).u64(offset);
    out.u32(0x07064B50).u32(0).u64(offset + size).u32(1);
  }
  const std::uint64_t shown = wide ? 0xFFFF : count;
  out.u32(0x06054B50).u16(0).u16(0).u16(shown).u16(shown).u32(wide ? kMax32 : size).u32(wide ? kMax32 : offset).u16(0);
  return out.bytes();
}

Member write_member(const NewFile& file, std::size_t array, std::uint64_t offset, bool deflated, FileWriter& out) {
  const NewArray& it = file.arrays[array];
  const std::string head = npy_header(it.dtype, it.shape);
  Member m;
  m.name = it.name + ".npy";
  m.offset = offset;
  m.plain = head.size() + static_cast<std::uint64_t>(bytes_of(it));
  m.wide = m.plain + m.plain / 1000 + kMemberSlack >= kMax32;
  m.stored = deflated ? 0 : m.plain;
  const std::string blank = local_header(m, deflated);
  out.write(blank.data(), blank.size());
  std::optional<Deflater> deflater;
  if (deflated) deflater.emplace(file.storage.level, out);
  const auto take = [&](std::span<const std::byte> bytes) {
    m.crc = libdeflate_crc32(m.crc, bytes.data(), bytes.size());
    if (deflater) {
      deflater->add(bytes);
    } else {
      out.write(bytes.data(), bytes.size());
    }
  };
  take(std::as_bytes(std::span(head)));
  pull_in_order(file, array, take);
  if (deflater) m.stored = deflater->finish();
  const std::string full = local_header(m, deflated);
  out.write_at(static_cast<std::int64_t>(m.offset), full.data(), full.size());
  return m;
}

void write_npz(const NewFile& file, FileWriter& out) {
  const bool deflated = file.storage.compress == "deflate";
  std::uint64_t offset = 0;
  std::string directory;
  for (std::size_t a = 0; a < file.arrays.size(); ++a) {
    const Member m = write_member(file, a, offset, deflated, out);
    offset += local_header(m, deflated).size() + m.stored;
    directory += directory_entry(m, deflated);
  }
  out.write(directory.data(), directory.size());
  const std::string end = end_of_directory(file.arrays.size(), offset, directory.size());
  out.write(end.data(), end.size());
}

std::string refusal(const NewArray& array) {
  if (!array.dtype.whole_bytes()) return "its elements fill no whole bytes";
  if (array.name.size() > 60000 || printable(array.name) != array.name) return "its name is no plain text";
  return "";
}

std::int64_t buffer(const NewFile&) {
  return kPullBytes + (1 << 20);
}

}  // namespace

extern const Writer npz_writer;
const Writer npz_writer{.name = "npz",
                        .extension = ".npz",
                        .several = true,
                        .codecs = {"deflate"},
                        .refusal = refusal,
                        .memory = buffer,
                        .write = write_npz};

}  // namespace loadstone
