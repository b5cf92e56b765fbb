#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/io/byte_source.h"

namespace loadstone {

/// The files of a data set: names in one arena, everything else in arrays, so that 100,000 files cost bytes, not
/// objects (24 B a file beyond its name). Paths are bytes; they need not be UTF-8.
class FileTable {
 public:
  std::int32_t add(std::string_view path, FileStamp stamp);
  std::int64_t size() const { return static_cast<std::int64_t>(sizes_.size()); }
  std::string path(std::int64_t file) const;
  FileStamp stamp(std::int64_t file) const;
  friend bool operator==(const FileTable&, const FileTable&) = default;

 private:
  std::string names_;
  std::vector<std::int64_t> name_ends_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> mtimes_;
};

/// Which dimension varies fastest in a stored block: the last (C) or the first (F).
enum class ElementOrder : std::uint8_t { c, f };

/// How to get plain elements from the stored bytes of an encoded piece. Opaque to plan, exec and verify: only the
/// format that wrote it understands `codec` (for instance a JSON codec chain).
struct Encoding {
  std::string format;  ///< name of the Format whose decode() is asked
  std::string codec;
  /// decode() opens and reads the file by itself, of which `stored_bytes` is the count; nothing is read for it.
  bool reads_file = false;
  friend bool operator==(const Encoding&, const Encoding&) = default;
};

/// One piece of an array: a box of its index space and where the bytes are. Made on demand by Tiling.
struct Piece {
  std::int64_t number = 0;  ///< in the tiling
  std::int64_t part = 0;    ///< which member of the stack
  Box box;                  ///< in the array's indices, clipped to the array
  Shape stored_shape;       ///< of the block on disk, which begins at box.begin; larger than box at cut edges
  std::int32_t file = -1;
  std::int64_t offset_bytes = 0;
  std::int64_t stored_bytes = 0;  ///< in the file; 0 for an absent piece
  ByteOrder byte_order = ByteOrder::little;
  ElementOrder order = ElementOrder::c;
  std::int32_t encoding = -1;  ///< index into ArrayEntry::encodings, -1 = plain elements, read in place
  bool absent = false;         ///< holds the fill value, nothing is read
};

/// A regular grid of chunks inside one part (zarr, chunked HDF5), or row groups along axis 0 (Parquet). Chunk k in
/// row-major order of the grid. In a sparse grid the lists hold the chunks of `numbers` alone, so that absent ones cost
/// nothing.
struct ChunkGrid {
  Shape chunk_shape;                     ///< regular grid; empty when `row_bounds` is used
  std::vector<std::int64_t> row_bounds;  ///< row groups: bounds relative to the part, 0 first; else empty
  std::vector<std::int64_t> offsets;     ///< of each chunk in its file; -1 = absent
  std::vector<std::int64_t> stored_bytes;
  std::vector<std::int32_t> files;            ///< empty: all in the part's file
  std::vector<std::int32_t> chunk_encodings;  ///< empty: all as the part's
  bool sparse = false;
  std::vector<std::int64_t> numbers;  ///< sparse: of the chunks that are there, ascending
  friend bool operator==(const ChunkGrid&, const ChunkGrid&) = default;
};

/// How an array lies in its files: parts stacked along axis 0 (a part = a shard file, a store, a data set), each a
/// plain block or a grid of chunks. Struct of arrays; a plain part costs 21 bytes. Piece numbers ascend with the parts,
/// then row-major inside a grid. An array of 0 dimensions has one part of one piece.
class Tiling {
 public:
  explicit Tiling(Shape trailing = {}) : trailing_(std::move(trailing)) {}

  /// Appends a plain part of `rows` rows.
  void add_plain(std::int64_t rows, std::int32_t file, std::int64_t offset_bytes, ByteOrder byte_order,
                 ElementOrder order, std::int32_t encoding = -1, std::int64_t stored_bytes = -1);
  /// Appends a part made of chunks.
  void add_grid(std::int64_t rows, std::int32_t file, ChunkGrid grid, ByteOrder byte_order, ElementOrder order,
                std::int32_t encoding = -1);
  /// Makes this the tiling of a 0-d array (one element, no axis 0).
  void set_scalar();

  bool scalar() const { return scalar_; }
  Shape shape() const;
  std::int64_t num_parts() const { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t num_pieces() const;
  /// Row table: cum[0] = 0, cum[f+1] = cum[f] + rows of part f (loading section 1). Size num_parts() + 1.
  const std::vector<std::int64_t>& row_bounds() const { return cum_; }
  std::int64_t rows_of(std::int64_t part) const {
    return cum_[static_cast<std::size_t>(part) + 1] - cum_[static_cast<std::size_t>(part)];
  }
  std::int32_t file_of(std::int64_t part) const { return files_[static_cast<std::size_t>(part)]; }
  /// (big-endian, Fortran order) of a part.
  std::pair<bool, bool> part_order(std::int64_t part) const;
  /// True when every part is a plain block whose granule is one element.
  bool all_plain() const;

  Piece piece(std::int64_t number, DType dtype) const;
  /// Calls fn for each piece that overlaps `box` with elements in common, in ascending number, beginning with piece
  /// `first_piece`; stops when fn returns false. O(log parts + hits), so that a walk can be taken up again where it
  /// stopped.
  void for_each_overlap(const Box& box, DType dtype, const std::function<bool(const Piece&)>& fn,
                        std::int64_t first_piece = 0) const;

  friend bool operator==(const Tiling&, const Tiling&) = default;

 private:
  const ChunkGrid* grid_of(std::int64_t part) const;
  std::int64_t first_piece_of(std::int64_t part) const;
  void add_part(std::int64_t rows, std::int32_t file, std::int64_t offset_bytes, std::uint8_t flags,
                std::int32_t encoding, std::int64_t stored_bytes, std::int64_t pieces);
  Piece plain_piece(std::int64_t part, DType dtype) const;
  Piece grid_piece(std::int64_t part, const ChunkGrid& grid, std::int64_t chunk, DType dtype) const;

  Shape trailing_;
  bool scalar_ = false;
  std::vector<std::int64_t> cum_{0};
  std::vector<std::int32_t> files_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint8_t> flags_;        // bit 0 big-endian, bit 1 F order, bit 2 has a grid
  std::vector<std::int32_t> encodings_;    // empty: all plain
  std::vector<std::int64_t> stored_;       // empty: from the shape
  std::vector<std::int64_t> first_piece_;  // empty: part f is piece f; else num_parts() + 1 entries
  std::vector<std::int64_t> grid_parts_;   // ascending part numbers that have a grid …
  std::vector<ChunkGrid> grids_;           // … and their grids
};

/// One named array.
struct ArrayEntry {
  std::string name;    ///< for messages and --array
  std::string format;  ///< "npy", "raw", …
  DType dtype;
  Shape shape;
  Tiling tiling;
  std::vector<Encoding> encodings;
  std::vector<std::byte> fill;  ///< one element in native order; empty when there is no fill value

  /// Bytes of the whole array in memory.
  std::int64_t nbytes() const { return dtype.nbytes(num_elems(shape)); }
  friend bool operator==(const ArrayEntry&, const ArrayEntry&) = default;
};

/// The named arrays found in the paths. A plain value: printable, comparable, the same on every process.
struct Catalog {
  std::vector<ArrayEntry> arrays;
  FileTable files;
  std::vector<std::string> notes;     ///< what a person should know: left-out files, holes accepted
  std::vector<std::string> left_out;  ///< files seen and not used, with the reason
  bool completeness_checked = false;  ///< --expect-files, --expect-rows or a -of-N name was checked (loading D15)
  IoCounters counters;                ///< what discovery cost

  /// The only array, or the named one. Error{usage} listing the names when there are several and none is named, or when
  /// the name is unknown.
  const ArrayEntry& array(std::string_view name = {}) const;
  std::int64_t index_of(std::string_view name) const;
};

/// What `inspect` prints: format, files, first 8 row counts and how many more, total, trailing shape, dtype, bytes,
/// order.
std::string to_string(const Catalog& catalog);

}  // namespace loadstone
