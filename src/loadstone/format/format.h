#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/format/catalog.h"

namespace loadstone {

/// What the caller says about the bytes. Everything is optional for self-describing formats.
struct ReadHints {
  std::optional<DiskType> dtype;   ///< --dtype: raw; or the name of a type that the file has lost (V2, datetime64)
  std::optional<Shape> row_shape;  ///< raw: shape of a row
  std::optional<Shape> shape;      ///< raw: whole shape of each file
  std::optional<std::int64_t> offset_bytes;  ///< raw: bytes before the elements, in each file
  std::optional<ElementOrder> order;         ///< raw
  std::vector<std::string> arrays;           ///< names asked for; empty = all (or the only one)
};

/// What one file (or store) holds, as its header says. One for each array in it.
struct Header {
  std::string name;  ///< of the array inside the file; "" for formats with one unnamed array
  DType dtype;
  Shape shape;
  ByteOrder byte_order = ByteOrder::little;
  ElementOrder order = ElementOrder::c;
  std::int64_t offset_bytes = 0;  ///< of the elements
  std::optional<ChunkGrid> grid;
  std::optional<Encoding> encoding;
  std::vector<std::byte> fill;
  std::string note;  ///< something worth telling a person, or ""
};

/// A file format: one constant in one .cc file, listed in CMake's loadstone_add_table(format …).
struct Format {
  std::string_view name;
  std::vector<std::string_view> extensions;  ///< with the dot, lower case

  /// True if the first bytes (up to 256, fewer in a shorter file) look like this format.
  bool (*recognise)(std::span<const std::byte> head);
  /// Reads headers only. `source` is open, its stamp gives the size. Error{data} naming the file for anything that is
  /// not as it claims; header + payload must equal the file size exactly (loading D16).
  std::vector<Header> (*discover)(ByteSource& source, const ReadHints& hints);
  /// Decodes one stored piece: `stored` bytes in, C-order native elements of the piece's stored_shape out. Null when
  /// pieces are plain. Safe from any thread.
  void (*decode)(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
                 std::span<std::byte> out);
};

/// All formats built in, in order of recognition. Raw is never recognised: it has to be named.
std::span<const Format* const> all_formats();
/// By name, or nullptr.
const Format* find_format(std::string_view name);

}  // namespace loadstone
