#include "loadstone/format/zip.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/format/faults.h"

namespace loadstone {

namespace {

constexpr std::int64_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kEntryBytes = 46, kLocalBytes = 30;
constexpr std::int64_t kMaxComment = 65535;

/// Little-endian numbers at bytes of a record.
class Record {
 public:
  explicit Record(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t number(std::size_t at, std::size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) throw data_error("a zip record is cut short");
    std::uint64_t out = 0;
    for (std::size_t i = size; i-- > 0;) out = out << 8 | std::to_integer<std::uint64_t>(bytes_[at + i]);
    return out;
  }
  std::uint32_t u16(std::size_t at) const { return static_cast<std::uint32_t>(number(at, 2)); }
  std::uint32_t u32(std::size_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::size_t at) const { return number(at, 8); }

 private:
  std::span<const std::byte> bytes_;
};

std::vector<std::byte> read_bytes(ByteSource& source, std::int64_t offset, std::int64_t count) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  if (count > 0) source.read(offset, out);
  return out;
}

/// Where the central directory lies.
struct Directory {
  std::int64_t offset = 0, bytes = 0, entries = 0;
};

Directory checked(std::uint64_t offset, std::uint64_t bytes, std::uint64_t entries, std::int64_t limit) {
  const auto most = static_cast<std::uint64_t>(limit);
  if (offset > most || bytes > most - offset) {
    throw data_error(cat("the zip directory claims bytes ", offset, " to ", offset + bytes, " of the ", limit,
                         " before its end record"));
  }
  if (entries > bytes / static_cast<std::uint64_t>(kEntryBytes)) {
    throw data_error(cat("the zip directory claims ", entries, " members in ", bytes, " bytes"));
  }
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes), static_cast<std::int64_t>(entries)};
}

Directory find_directory(ByteSource& source) {
  const std::int64_t size = source.stamp().size_bytes;
  const std::int64_t tail = std::min(size, kEndBytes + kMaxComment);
  const std::vector<std::byte> bytes = read_bytes(source, size - tail, tail);
  // Backwards: the end record is followed by a comment of the length that it tells.
  for (std::int64_t at = tail - kEndBytes; at >= 0; --at) {
    const Record end{std::span<const std::byte>(bytes).subspan(static_cast<std::size_t>(at))};
    if (end.u32(0) != 0x06054b50 || end.u16(20) != tail - kEndBytes - at) continue;
    const std::int64_t place = size - tail + at;
    const bool big = end.u16(10) == 0xFFFF || end.u32(12) == 0xFFFFFFFF || end.u32(16) == 0xFFFFFFFF;
    if (!big || place < kLocatorBytes) return checked(end.u32(16), end.u32(12), end.u16(10), place);
    const std::vector<std::byte> locator_bytes = read_bytes(source, place - kLocatorBytes, kLocatorBytes);
    const Record locator(locator_bytes);
    if (locator.u32(0) != 0x07064b50) return checked(end.u32(16), end.u32(12), end.u16(10), place);
    const std::uint64_t where = locator.u64(8);
    if (where > static_cast<std::uint64_t>(place) || place - static_cast<std::int64_t>(where) < kEnd64Bytes) {
      throw data_error("the zip64 end record lies outside the file");
    }
    const std::vector<std::byte> end64_bytes = read_bytes(source, static_cast<std::int64_t>(where), kEnd64Bytes);
    const Record end64(end64_bytes);
    if (end64.u32(0) != 0x06064b50) throw data_error("there is no zip64 end record where its locator points");
    return checked(end64.u64(48), end64.u64(40), end64.u64(32), static_cast<std::int64_t>(where));
  }
  throw data_error("truncated zip archive: no end record");
}

/// The 64-bit numbers of an entry that its 32-bit fields leave to the extra field, in their order.
void read_zip64(const Record& extra, std::size_t size, std::uint64_t& bytes, std::uint64_t& stored,
                std::uint64_t& offset) {
  for (std::size_t at = 0; at + 4 <= size;) {
    const std::size_t length = extra.u16(at + 2);
    if (extra.u16(at) == 1) {
      std::size_t field = at + 4;
      for (std::uint64_t* number : {&bytes, &stored, &offset}) {
        if (*number != 0xFFFFFFFF) continue;
        if (field + 8 > at + 4 + length) throw data_error("a zip64 extra field is cut short");
        *number = extra.u64(field);
        field += 8;
      }
      return;
    }
    at += 4 + length;
  }
}

ZipMember read_entry(const Record& entry, std::string name, const Record& extra, std::size_t extra_bytes,
                     std::int64_t& local_offset) {
  ZipMember out;
  out.name = std::move(name);
  out.crc = entry.u32(16);
  std::uint64_t stored = entry.u32(20), bytes = entry.u32(24), offset = entry.u32(42);
  read_zip64(extra, extra_bytes, bytes, stored, offset);
  constexpr auto kMost = static_cast<std::uint64_t>(std::int64_t{1} << 62);
  if (stored > kMost || bytes > kMost || offset > kMost) {
    throw data_error(cat("member ", in_quotes(out.name), " claims more than 2^62 bytes"));
  }
  out.stored_bytes = static_cast<std::int64_t>(stored);
  out.bytes = static_cast<std::int64_t>(bytes);
  local_offset = static_cast<std::int64_t>(offset);
  const std::uint32_t flags = entry.u16(8), method = entry.u16(10);
  out.deflated = method == 8;
  if ((flags & 1U) != 0)
    out.refusal = "is encrypted";
  else if (method != 0 && method != 8)
    out.refusal = cat("is packed by zip method ", method, ": stored and deflate are known");
  return out;
}

/// The local header repeats the name with an extra field of its own length: only it tells where the bytes begin.
void find_bytes(ByteSource& source, std::int64_t local_offset, std::int64_t limit, ZipMember& member) {
  if (local_offset > limit - kLocalBytes)
    throw data_error(cat("member ", in_quotes(member.name), " lies outside the file"));
  const std::vector<std::byte> bytes = read_bytes(source, local_offset, kLocalBytes);
  const Record local(bytes);
  if (local.u32(0) != 0x04034b50) throw data_error(cat("member ", in_quotes(member.name), " has no local header"));
  member.offset_bytes = local_offset + kLocalBytes + local.u16(26) + local.u16(28);
  if (member.offset_bytes > limit || member.stored_bytes > limit - member.offset_bytes) {
    throw data_error(cat("member ", in_quotes(member.name), " claims bytes ", member.offset_bytes, " to ",
                         member.offset_bytes + member.stored_bytes, ": expected at most ", limit));
  }
  // Deflate packs at most 1032 to 1.
  const std::int64_t most =
      member.deflated ? checked_mul(member.stored_bytes, 1032).value_or(member.bytes) : member.stored_bytes;
  if (member.refusal.empty() && (member.bytes > most || (!member.deflated && member.bytes != member.stored_bytes))) {
    throw data_error(
        cat("member ", in_quotes(member.name), " claims ", member.bytes, " bytes in ", member.stored_bytes));
  }
}

std::vector<ZipMember> read_members(ByteSource& source) {
  const Directory directory = find_directory(source);
  const std::vector<std::byte> bytes = read_bytes(source, directory.offset, directory.bytes);
  std::vector<ZipMember> out;
  std::set<std::string> names;
  std::span<const std::byte> rest = bytes;
  for (std::int64_t i = 0; i < directory.entries; ++i) {
    const Record entry(rest);
    if (entry.u32(0) != 0x02014b50) throw data_error(cat("entry ", i, " of the zip directory is damaged"));
    const std::size_t name_bytes = entry.u16(28), extra_bytes = entry.u16(30), comment_bytes = entry.u16(32);
    const std::size_t whole = kEntryBytes + name_bytes + extra_bytes + comment_bytes;
    if (whole > rest.size()) throw data_error("the zip directory is cut short");
    const auto* name = reinterpret_cast<const char*>(rest.data()) + kEntryBytes;
    std::int64_t local_offset = 0;
    ZipMember member =
        read_entry(entry, std::string(name, name_bytes), Record(rest.subspan(kEntryBytes + name_bytes, extra_bytes)),
                   extra_bytes, local_offset);
    if (!names.insert(member.name).second) throw data_error(cat("two members are called ", in_quotes(member.name)));
    find_bytes(source, local_offset, directory.offset, member);
    out.push_back(std::move(member));
    rest = rest.subspan(whole);
  }
  return out;
}

}  // namespace

std::vector<ZipMember> read_zip_directory(ByteSource& source) {
  try {
    return read_members(source);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || !error.facts().file.empty()) throw;
    throw as_file_error(source.path(), error);
  }
}

}  // namespace loadstone
