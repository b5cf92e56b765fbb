#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/lost_types.h"
#include "loadstone/format/npy_header.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
constexpr std::int64_t kFirstRead = 256;         // holds nearly every header whole
constexpr std::int64_t kMaxHeader = 64LL << 20;  // 64 MiB; NumPy's own safe limit is 10,000 bytes

std::string_view chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool recognise(std::span<const std::byte> head) {
  return chars(head).starts_with(kMagic);
}

struct Text {
  std::string dictionary;
  std::int64_t payload_offset = 0;
};

bool valid_utf8(std::string_view text) {
  // printable() rewrites whatever is not UTF-8; line breaks and other controls are judged by the parser.
  std::string plain(text);
  std::erase_if(plain, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  return printable(plain) == plain;
}

/// The header's text, by at most two reads, never past what the file holds.
Text read_text(ByteSource& source) {
  const std::string_view path = source.path();
  const std::int64_t size = source.stamp().size_bytes;
  std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(size, kFirstRead)));
  if (!bytes.empty()) source.read(0, bytes);
  if (!recognise(bytes)) {
    const std::string found = sniff(bytes, size, path).what;
    throw file_error(path, cat("not an npy file (bad magic): it is ", found), "the magic \\x93NUMPY", found);
  }
  const auto byte = [&](std::size_t i) { return std::to_integer<std::int64_t>(bytes[i]); };
  if (size < 10) {
    throw file_error(path, cat("truncated npy header: expected at least 10 bytes, found ", size), "at least 10 bytes",
                     cat(size, " bytes"));
  }
  const std::int64_t major = byte(6);
  const std::int64_t minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    throw file_error(path, cat("npy version ", major, ".", minor, " is not known: expected 1.0, 2.0 or 3.0"),
                     "version 1.0, 2.0 or 3.0", cat(major, ".", minor));
  }
  const std::int64_t prefix = major == 1 ? 10 : 12;
  if (size < prefix) {
    throw file_error(path, cat("truncated npy header: expected at least ", prefix, " bytes, found ", size),
                     cat("at least ", prefix, " bytes"), cat(size, " bytes"));
  }
  const std::int64_t length =
      major == 1 ? byte(8) + (byte(9) << 8) : byte(8) + (byte(9) << 8) + (byte(10) << 16) + (byte(11) << 24);
  if (length > size - prefix) {
    throw file_error(path,
                     cat("truncated npy header: it declares ", length, " bytes, so expected a file of at least ",
                         prefix + length, " bytes, found ", size),
                     cat("at least ", prefix + length, " bytes"), cat(size, " bytes"));
  }
  if (length > kMaxHeader) {
    throw file_error(path, cat("npy header of ", length, " bytes is above the limit of ", kMaxHeader),
                     cat("at most ", kMaxHeader, " bytes"), cat(length, " bytes"));
  }
  const std::int64_t end = prefix + length;
  const auto have = static_cast<std::int64_t>(bytes.size());
  bytes.resize(static_cast<std::size_t>(end));
  if (end > have) source.read(have, std::span(bytes).subspan(static_cast<std::size_t>(have)));
  Text out{std::string(chars(bytes).substr(static_cast<std::size_t>(prefix))), end};
  if (major == 3 && !valid_utf8(out.dictionary))
    throw file_error(path, "malformed npy header: version 3.0 is not UTF-8");
  return out;
}

/// C's one-letter codes, which NumPy reads, too. l and L are left out: their size depends on the writer's machine.
std::optional<DiskType> letter_type(std::string_view descr) {
  struct Letter {
    char letter;
    std::string_view code;
  };
  static constexpr std::array<Letter, 14> kLetters{{{'?', "b1"},
                                                    {'b', "i1"},
                                                    {'B', "u1"},
                                                    {'h', "i2"},
                                                    {'H', "u2"},
                                                    {'i', "i4"},
                                                    {'I', "u4"},
                                                    {'q', "i8"},
                                                    {'Q', "u8"},
                                                    {'e', "f2"},
                                                    {'f', "f4"},
                                                    {'d', "f8"},
                                                    {'F', "c8"},
                                                    {'D', "c16"}}};
  std::string order = "<";
  if (descr.size() == 2 && std::string_view("<>=|").find(descr.front()) != std::string_view::npos) {
    order = descr.substr(0, 1);
    descr.remove_prefix(1);
  }
  if (descr.size() != 1) return std::nullopt;
  for (const Letter& letter : kLetters) {
    if (letter.letter == descr.front()) return parse_typestr(order + std::string(letter.code));
  }
  return std::nullopt;
}

/// A type that can be placed, or nullopt.
std::optional<DiskType> plain_type(std::string_view descr) {
  if (const auto type = parse_typestr(descr)) return type;
  if (const auto type = letter_type(descr)) return type;
  if (!descr.empty() && (std::isalpha(static_cast<unsigned char>(descr.front())) != 0 || descr.front() == '?')) {
    try {
      const DiskType type = parse_dtype(descr);
      if (type.dtype.whole_bytes()) return type;
    } catch (const Error&) {
      return std::nullopt;  // explained by the caller
    }
  }
  return std::nullopt;
}

struct Typed {
  DiskType type;
  std::string note;
};

Typed element_type(std::string_view path, const NpyHeader& header, const std::optional<DiskType>& named) {
  if (!header.structured.empty()) {
    throw file_error(path, cat("dtype is ", header.structured, ": only plain element types can be placed"),
                     "a plain dtype", header.structured);
  }
  const std::string shown = cat("dtype '", printable(header.descr), "'");
  if (const auto type = plain_type(header.descr)) {
    if (named && named->dtype != type->dtype) {
      throw file_usage_error(path,
                             cat("--dtype names ", to_string(named->dtype), ", but the file holds ",
                                 to_string(type->dtype), "; loading does not cast"),
                             to_string(named->dtype), to_string(type->dtype));
    }
    return {*type, {}};
  }
  const std::int64_t itemsize = nameable_itemsize(header.descr);
  if (itemsize > 0 && named) {
    if (!named->dtype.whole_bytes() || named->dtype.itemsize() != itemsize) {
      throw file_usage_error(path,
                             cat("--dtype names ", to_string(named->dtype), ", whose element does not have the ",
                                 itemsize, " bytes of ", shown),
                             cat(itemsize, " bytes"), to_string(named->dtype));
    }
    const bool big = header.descr.starts_with('>') || named->order == ByteOrder::big;
    const bool swaps = named->dtype.swap_bytes() > 1;
    return {{named->dtype, big && swaps ? ByteOrder::big : ByteOrder::little},
            cat(shown, " is read as ", to_string(named->dtype))};
  }
  std::string why = explain_typestr(header.descr);
  if (why.empty()) why = "it is no type that can be placed";
  throw file_error(path, cat(shown, ": ", why), "a dtype that can be placed", header.descr);
}

void check_size(std::string_view path, const Shape& shape, DType dtype, std::int64_t offset, std::int64_t size) {
  // Extents beside a 0 count, too: no later product over some of them may overflow.
  std::int64_t product = dtype.itemsize();
  for (const std::int64_t extent : shape) {
    const auto next = checked_mul(product, std::max<std::int64_t>(extent, 1));
    if (!next) throw file_error(path, cat("shape ", to_string(shape), " is too large: more than 2^63-1 bytes"));
    product = *next;
  }
  const std::int64_t payload = dtype.nbytes(num_elems(shape));
  const auto expected = checked_add(offset, payload);
  if (expected && *expected == size) return;
  const std::string wanted = cat(expected ? std::to_string(*expected) : cat(offset, " + ", payload), " bytes");
  const std::string_view what = !expected || *expected > size ? "truncated" : "trailing bytes after the payload";
  throw file_error(
      path,
      cat(what, ": expected ", wanted, " (header ", offset, ", payload ", payload, " for shape ", to_string(shape),
          " of ", to_string(dtype), "), found ", size, " bytes (payload ", size - offset, ")"),
      wanted, cat(size, " bytes"));
}

void refuse_raw_hints(std::string_view path, const Header& header, const ReadHints& hints) {
  const auto differs = [&](std::string_view option, const std::string& said, const std::string& found) {
    if (said == found) return;
    throw file_usage_error(path, cat(option, " says ", said, ", but the npy header says ", found), said, found);
  };
  if (hints.shape) differs("--shape", to_string(*hints.shape), to_string(header.shape));
  if (hints.row_shape && !header.shape.empty()) {
    differs("--row-shape", to_string(*hints.row_shape), to_string(Dims(header.shape.span().subspan(1))));
  }
  if (hints.offset_bytes) differs("--offset", cat(*hints.offset_bytes), cat(header.offset_bytes));
  if (hints.order) {
    differs("--order", *hints.order == ElementOrder::f ? "F" : "C", header.order == ElementOrder::f ? "F" : "C");
  }
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  const std::string path(source.path());
  const Text text = read_text(source);
  NpyHeader parsed;
  try {
    parsed = parse_npy_header(text.dictionary);
  } catch (const Error& error) {
    throw as_file_error(path, error);
  }
  const Typed typed = element_type(path, parsed, hints.dtype);
  check_size(path, parsed.shape, typed.type.dtype, text.payload_offset, source.stamp().size_bytes);
  Header header;
  header.dtype = typed.type.dtype;
  header.byte_order = typed.type.order;
  header.shape = std::move(parsed.shape);
  header.order = parsed.fortran_order ? ElementOrder::f : ElementOrder::c;
  header.offset_bytes = text.payload_offset;
  header.note = typed.note;
  refuse_raw_hints(path, header, hints);
  return {std::move(header)};
}

}  // namespace

extern const Format npy_format;
const Format npy_format{"npy", {".npy"}, recognise, discover, nullptr};

}  // namespace loadstone
