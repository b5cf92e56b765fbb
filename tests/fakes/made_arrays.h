#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/format/catalog.h"
#include "loadstone/plan/coalesce.h"
#include "tests/fakes/memory_source.h"

namespace loadstone::fakes {

/// Made-up arrays: a catalog over files in memory, and what each array holds as C-order native elements. The files are
/// written element by element from those, by the definition of their order.
struct MadeArrays {
  MemorySources sources;
  Catalog catalog;
  std::vector<std::vector<std::byte>> values;
  std::mt19937 random;

  explicit MadeArrays(std::uint32_t seed = 1) : random(seed) {}

  std::vector<std::byte> noise(std::int64_t bytes) {
    std::vector<std::byte> out(static_cast<std::size_t>(bytes));
    for (std::byte& b : out) b = static_cast<std::byte>(random());
    return out;
  }
};

/// Encoded pieces of these tests: three bytes in front, then each byte xor 0x5A.
inline void xor_decode(const Encoding&, const Piece&, DType, std::span<const std::byte> stored,
                       std::span<std::byte> out) {
  if (stored.size() != out.size() + 3) throw data_error("not as long as its shape says");
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = stored[i + 3] ^ std::byte{0x5A};
}

/// The bytes on disk of the block of `stored` elements that begins at `box.begin`; elements outside the array are
/// noise.
inline std::vector<std::byte> stored_block(MadeArrays& made, const std::vector<std::byte>& values, const Shape& shape,
                                           const Box& box, const Shape& stored, DType dtype, ElementOrder order,
                                           ByteOrder byte_order) {
  const std::int64_t size = dtype.itemsize();
  const std::int64_t group = byte_order == ByteOrder::big ? dtype.swap_bytes() : 1;
  std::vector<std::byte> out = made.noise(num_elems(stored) * size);
  const Dims dims = storage_order(stored.size(), order);
  Dims index = Dims::filled(stored.size(), 0);
  for (std::int64_t i = 0; i < num_elems(stored); ++i) {
    Dims global = index;
    bool inside = true;
    for (int d = 0; d < index.size(); ++d) {
      global[d] += box.begin[d];
      inside = inside && global[d] < box.end[d];
    }
    if (inside) {
      const std::int64_t from = linear_index(global, Box::whole(shape)) * size;
      for (std::int64_t b = 0; b < size; ++b) {
        const std::int64_t source = b / group * group + group - 1 - b % group;
        out[static_cast<std::size_t>(i * size + b)] = values[static_cast<std::size_t>(from + source)];
      }
    }
    for (int k = index.size() - 1; k >= 0; --k) {
      const int d = static_cast<int>(dims[k]);
      if (++index[d] < stored[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

/// One file of a stack.
struct MadeFile {
  std::int64_t rows = 0;
  ElementOrder order = ElementOrder::c;
  ByteOrder byte_order = ByteOrder::little;
};

/// Adds an array of plain files stacked along axis 0, each behind a header of some bytes. Returns its index.
inline std::int64_t add_stack(MadeArrays& made, const std::string& name, DType dtype, const Shape& trailing,
                              const std::vector<MadeFile>& files) {
  ArrayEntry entry{name, "made", dtype, {}, Tiling(trailing), {}, {}};
  std::int64_t total = 0;
  for (const MadeFile& file : files) total += file.rows;
  entry.shape.push_back(total);
  for (const std::int64_t extent : trailing) entry.shape.push_back(extent);
  made.values.push_back(made.noise(dtype.nbytes(num_elems(entry.shape))));
  const std::vector<std::byte>& values = made.values.back();
  std::int64_t row = 0;
  for (std::size_t f = 0; f < files.size(); ++f) {
    const std::string path = cat(name, "_", f);
    Box box = Box::whole(entry.shape);
    box.begin[0] = row;
    box.end[0] = row += files[f].rows;
    const auto header = static_cast<std::int64_t>(made.random() % 70);
    std::vector<std::byte> bytes = made.noise(header);
    std::vector<std::byte> block;
    if (dtype.whole_bytes()) {
      block = stored_block(made, values, entry.shape, box, box.shape(), dtype, files[f].order, files[f].byte_order);
    } else {
      block = values;  // packed types: one file in C order
    }
    bytes.insert(bytes.end(), block.begin(), block.end());
    const FileStamp stamp = made.sources.put(path, std::move(bytes));
    entry.tiling.add_plain(files[f].rows, made.catalog.files.add(path, stamp), header, files[f].byte_order,
                           files[f].order);
  }
  made.catalog.arrays.push_back(std::move(entry));
  return static_cast<std::int64_t>(made.catalog.arrays.size()) - 1;
}

/// How the chunks of a made-up grid look.
struct MadeGrid {
  Shape chunk;
  ElementOrder order = ElementOrder::c;
  ByteOrder byte_order = ByteOrder::little;
  bool encoded = false;
  unsigned absent_of_8 = 0;  ///< so many of eight chunks are absent
};

/// Adds an array of one part per entry of `rows`, each a grid of chunks in a file of its own. Returns its index.
inline std::int64_t add_grid(MadeArrays& made, const std::string& name, DType dtype, const Shape& trailing,
                             const std::vector<std::int64_t>& rows, const MadeGrid& how) {
  ArrayEntry entry{name, "made", dtype, {}, Tiling(trailing), {}, made.noise(dtype.itemsize())};
  if (how.encoded) entry.encodings.push_back({"xor", ""});
  std::int64_t total = 0;
  for (const std::int64_t n : rows) total += n;
  entry.shape.push_back(total);
  for (const std::int64_t extent : trailing) entry.shape.push_back(extent);
  made.values.push_back(made.noise(dtype.nbytes(num_elems(entry.shape))));
  std::vector<std::byte>& values = made.values.back();
  std::int64_t first = 0;
  for (std::size_t f = 0; f < rows.size(); ++f) {
    const std::string path = cat(name, "_", f);
    Box part = Box::whole(entry.shape);
    part.begin[0] = first;
    part.end[0] = first += rows[f];
    ChunkGrid grid;
    grid.chunk_shape = how.chunk;
    std::vector<std::byte> bytes = made.noise(static_cast<std::int64_t>(made.random() % 20));
    Dims counts = part.shape();
    std::int64_t chunks = 1;
    for (int d = 0; d < counts.size(); ++d) chunks *= counts[d] = (counts[d] + how.chunk[d] - 1) / how.chunk[d];
    for (std::int64_t c = 0; c < chunks; ++c) {
      Box box = part;
      std::int64_t rest = c;
      for (int d = box.ndim() - 1; d >= 0; --d) {
        box.begin[d] = part.begin[d] + rest % counts[d] * how.chunk[d];
        box.end[d] = std::min(part.end[d], box.begin[d] + how.chunk[d]);
        rest /= counts[d];
      }
      if (made.random() % 8 < how.absent_of_8) {
        grid.offsets.push_back(-1);
        grid.stored_bytes.push_back(0);
        Dims index = box.begin;
        for (std::int64_t i = 0; i < box.num_elems(); ++i) {
          const std::int64_t at = linear_index(index, Box::whole(entry.shape)) * dtype.itemsize();
          std::copy(entry.fill.begin(), entry.fill.end(), values.begin() + at);
          for (int d = index.size() - 1; d >= 0; --d) {
            if (++index[d] < box.end[d]) break;
            index[d] = box.begin[d];
          }
        }
        continue;
      }
      const ElementOrder order = how.encoded ? ElementOrder::c : how.order;
      const ByteOrder byte_order = how.encoded ? ByteOrder::little : how.byte_order;
      std::vector<std::byte> block = stored_block(made, values, entry.shape, box, how.chunk, dtype, order, byte_order);
      if (how.encoded) {
        for (std::byte& b : block) b ^= std::byte{0x5A};
        block.insert(block.begin(), 3, std::byte{1});
      }
      grid.offsets.push_back(static_cast<std::int64_t>(bytes.size()));
      grid.stored_bytes.push_back(static_cast<std::int64_t>(block.size()));
      bytes.insert(bytes.end(), block.begin(), block.end());
    }
    const FileStamp stamp = made.sources.put(path, std::move(bytes));
    entry.tiling.add_grid(rows[f], made.catalog.files.add(path, stamp), std::move(grid), how.byte_order, how.order,
                          how.encoded ? 0 : -1);
  }
  made.catalog.arrays.push_back(std::move(entry));
  return static_cast<std::int64_t>(made.catalog.arrays.size()) - 1;
}

/// A 0-d array in a file of its own.
inline std::int64_t add_scalar(MadeArrays& made, const std::string& name, DType dtype) {
  ArrayEntry entry{name, "made", dtype, {}, Tiling(), {}, {}};
  made.values.push_back(made.noise(dtype.itemsize()));
  const FileStamp stamp = made.sources.put(name, made.values.back());
  entry.tiling.add_plain(1, made.catalog.files.add(name, stamp), 0, ByteOrder::little, ElementOrder::c);
  entry.tiling.set_scalar();
  made.catalog.arrays.push_back(std::move(entry));
  return static_cast<std::int64_t>(made.catalog.arrays.size()) - 1;
}

/// What a box of the array has to hold, in C order.
inline std::vector<std::byte> expected_bytes(const MadeArrays& made, std::int64_t array, const Box& box) {
  const ArrayEntry& entry = made.catalog.arrays[static_cast<std::size_t>(array)];
  const std::vector<std::byte>& values = made.values[static_cast<std::size_t>(array)];
  const std::int64_t bits = entry.dtype.elem_bits();
  if (bits % 8 == 0 && box == Box::whole(entry.shape)) return values;
  std::vector<std::byte> out(static_cast<std::size_t>(entry.dtype.nbytes(box.num_elems())));
  Dims index = box.begin;
  for (std::int64_t i = 0; i < box.num_elems(); ++i) {
    const std::int64_t from = linear_index(index, Box::whole(entry.shape));
    for (std::int64_t b = 0; b < bits; ++b) {
      const auto source = static_cast<std::size_t>(from * bits + b);
      const auto target = static_cast<std::size_t>(i * bits + b);
      const std::byte bit = values[source / 8] >> static_cast<int>(source % 8) & std::byte{1};
      out[target / 8] |= bit << static_cast<int>(target % 8);
    }
    for (int d = index.size() - 1; d >= 0; --d) {
      if (++index[d] < box.end[d]) break;
      index[d] = box.begin[d];
    }
  }
  return out;
}

}  // namespace loadstone::fakes
