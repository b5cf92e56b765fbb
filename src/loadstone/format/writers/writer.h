#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/format/file_writer.h"

namespace loadstone {

/// An array as it will be in a file.
struct NewArray {
  std::string name;  ///< inside the file; of no meaning to formats of one unnamed array
  DType dtype;
  Shape shape;
  friend bool operator==(const NewArray&, const NewArray&) = default;
};

/// How the elements are stored. What a format does not know is refused, never ignored.
struct StorageOptions {
  std::string compress;  ///< one of Writer::codecs; "" or "none" = plain
  int level = -1;        ///< of the codec; -1 = the format's choice
  Shape chunks;          ///< zarr, hdf5: shape of a chunk; tables: rows of a group alone; empty = the format's choice
};

/// Gives C-order elements of `box` of array number `array`. Throws what the source throws.
using BoxSource = std::function<void(std::size_t array, const Box& box, std::span<std::byte> out)>;

/// What one file (or store) shall hold. The writer asks the source for every element exactly once, from the calling
/// thread, in an order that suits the format.
struct NewFile {
  std::vector<NewArray> arrays;
  StorageOptions storage;
  BoxSource source;
};

/// One format that can be written: a constant in its own file, listed in writer.cc. Files are little-endian and in C
/// order.
struct Writer {
  std::string_view name;                 ///< of --format: "npz"; "zarr2" is another way to write what "zarr" reads
  std::string_view extension;            ///< ".npz"
  bool several = false;                  ///< holds arrays under names
  bool table = false;                    ///< arrays are columns: all have as many rows
  bool chunked = false;                  ///< StorageOptions::chunks means something
  std::vector<std::string_view> codecs;  ///< beside none
  /// Why a file cannot hold this, or "". Looks at one array at a time.
  std::string (*refusal)(const NewArray& array);
  /// Bytes of memory that writing takes beside the source's.
  std::int64_t (*memory)(const NewFile& file);
  /// Null for stores. Error{system} of the disk, and whatever the source throws.
  void (*write)(const NewFile& file, FileWriter& out) = nullptr;
  /// Formats whose files are folders: fills the empty folder.
  void (*write_store)(const NewFile& file, const std::string& folder) = nullptr;
};

std::span<const Writer* const> all_writers();
/// Error{usage} naming the nearest and the known ones.
const Writer& writer_named(std::string_view name);
/// The writer whose extension a path has, or nullptr.
const Writer* writer_of_path(std::string_view path);
/// Error{usage} for what the format cannot hold or does not know; touches nothing.
void check_writable(const Writer& writer, const NewFile& file);

// --- for writers

/// Bytes pulled from the source at a time where the format leaves it open.
inline constexpr std::int64_t kPullBytes = 4 << 20;

/// Calls fn for boxes of at most max_bytes (or one element; of packed types at least 8 rows) that lie one after another
/// in the C order of an array of this shape. None for an empty array.
void for_each_slice(const Shape& shape, DType dtype, std::int64_t max_bytes, const std::function<void(const Box&)>& fn);
/// Pulls a whole array slice by slice and hands the bytes on.
void pull_in_order(const NewFile& file, std::size_t array, const std::function<void(std::span<const std::byte>)>& take);
/// The chunk shape asked for, or one of about a MiB that cuts the first dimensions. Every extent is at least 1.
Shape chunk_shape(const NewArray& array, const StorageOptions& storage);
/// Calls fn for each chunk of the grid in row-major order: its index in the grid, and its box clipped to the array.
void for_each_chunk(const Shape& shape, const Shape& chunk,
                    const std::function<void(const Dims& index, const Box& box)>& fn);
/// Pulls `box` into the beginning of a whole chunk; what the array does not reach is zero.
void pull_chunk(const NewFile& file, std::size_t array, const Box& box, const Shape& chunk,
                std::vector<std::byte>& out);
/// Bytes in memory.
std::int64_t bytes_of(const NewArray& array);

/// A .npy header of version 1.0 for little-endian C-order elements that follow it.
std::string npy_header(DType dtype, const Shape& shape);

/// One of deflate (zlib), gzip and zstd in one go; `level` -1 is the codec's usual.
std::vector<std::byte> compress(std::string_view codec, int level, std::span<const std::byte> plain);

}  // namespace loadstone
