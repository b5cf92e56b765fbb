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
  std::vector<std::string> columns;          ///< --columns: these columns of a table as one 2-D array
  std::optional<std::string> fill;           ///< --fill: value of nulls and of absent chunks without a fill
  bool strict = false;                       ///< --strict: an absent chunk is an error
};

/// What one file (or store) holds, as its header says. One for each array in it. Files of one set are stacked along
/// axis 0, array by array: the arrays of a name must agree in dtype and in all dimensions but the first.
struct Header {
  std::string name;  ///< of the array inside the file; "" for formats with one unnamed array, which has any name
  DType dtype;
  Shape shape;
  ByteOrder byte_order = ByteOrder::little;
  ElementOrder order = ElementOrder::c;
  std::int64_t offset_bytes = 0;  ///< of the elements; of no meaning with a grid
  /// With an encoding and without a grid: bytes of the one stored piece; -1 = as many as the elements take.
  std::int64_t stored_bytes = -1;
  /// Stores only, without a grid: the file (of `files` in discover_store) that holds the elements.
  std::int32_t file = -1;
  /// Chunks. In a store `files` numbers those of discover_store; else it stays empty: all lie in the file itself. For
  /// an array of 0 dimensions there is none.
  std::optional<ChunkGrid> grid;
  /// How the pieces are stored, to be undone by the format's decode(); nullopt = plain elements, read in place.
  std::optional<Encoding> encoding;
  std::vector<Encoding> chunk_encodings;  ///< what grid->chunk_encodings numbers, when chunks differ; else empty
  std::vector<std::byte> fill;            ///< one element in native order, for absent chunks
  std::string note;                       ///< something worth telling a person, or ""
};

/// A file format: one constant in one .cc file, listed in CMake's loadstone_add_table(format …).
struct Format {
  std::string_view name;
  std::vector<std::string_view> extensions;  ///< with the dot, lower case

  /// True if the first bytes (up to 256, fewer in a shorter file) look like this format.
  bool (*recognise)(std::span<const std::byte> head);
  /// Reads headers only. `source` is open, its stamp gives the size, its path() is the file's for libraries that open
  /// files themselves. Error{data} naming the file for anything that is not as it claims; header + payload must equal
  /// the file size exactly where the format allows no more (loading D16). Several arrays: those of hints.arrays, or all
  /// when it is empty. One that cannot be loaded (a text column) is an error when it was asked for; else it is left out
  /// and the first header's note says so. Safe from any thread, on other files.
  std::vector<Header> (*discover)(ByteSource& source, const ReadHints& hints);
  /// Decodes one stored piece: `stored` bytes in, C-order native elements of the piece's stored_shape out. Null when
  /// pieces are plain. Safe from any thread.
  void (*decode)(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
                 std::span<std::byte> out);

  /// False for formats that cannot be told from other bytes for sure: a file called so is taken for one.
  bool has_magic = true;

  /// Formats whose data sets are folders (zarr). True if the folder is one of them: one part of a stack, not a folder
  /// of shards. Null for formats of single files.
  bool (*recognise_store)(const std::string& folder) = nullptr;
  /// As discover, for a folder. Files that hold elements are added to `files`, in the order of the elements where that
  /// is known, with their stamps; their numbers there are what Header::file and ChunkGrid::files hold. Every file is
  /// opened through `sources`.
  std::vector<Header> (*discover_store)(const std::string& folder, ByteSourceFactory& sources, const ReadHints& hints,
                                        FileTable& files) = nullptr;

  /// For files that no recognise() knows: true if the format's mark lies deeper inside (HDF5 behind a user block). Null
  /// for formats whose mark is at the front.
  bool (*recognise_inside)(ByteSource& source) = nullptr;
};

/// All formats built in, in order of recognition. Raw is never recognised: it has to be named.
std::span<const Format* const> all_formats();
/// The format whose store this folder is, or nullptr.
const Format* find_store_format(const std::string& folder);
/// By name, or nullptr.
const Format* find_format(std::string_view name);

}  // namespace loadstone
