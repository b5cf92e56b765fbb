#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/array/dtype.h"

namespace loadstone::zarr {

enum class Codec { zlib, gzip, zstd, blosc, lz4, bz2, crc32c, shuffle, delta };

/// One codec from bytes to bytes.
struct Step {
  Codec codec{};
  /// shuffle: bytes of an element. delta: bytes of a number as it is stored.
  int item = 1;
  // delta: v[i] = v[i - 1] + stored[i], modulo 2^n for integers.
  int made_item = 1;  ///< bytes of a number as it was
  bool is_signed = false, is_float = false, big = false, made_big = false;
};

/// What was done to a chunk of elements, in the order in which it was written.
struct Chain {
  std::vector<int> dims;  ///< dimension of the array that each stored dimension is, slowest first
  bool big = false;       ///< elements are big-endian
  std::vector<Step> steps;
  std::vector<std::byte> fill;  ///< not empty: nothing is stored, every element is this one
};

/// True when elements lie in C order, or in Fortran order, and nothing else was done.
bool is_plain(const Chain& chain);
bool is_c_order(const std::vector<int>& dims);
bool is_f_order(const std::vector<int>& dims);

/// The text that an Encoding keeps, and back.
std::string to_text(const Chain& chain);
Chain parse_chain(const std::string& text);

/// C-order native elements of a chunk of this shape from what is stored. Error{data} without a file name when it is
/// damaged or does not unpack to exactly the chunk's bytes. Safe from any thread.
void decode_chunk(const Chain& chain, const Shape& shape, DType dtype, std::span<const std::byte> stored,
                  std::span<std::byte> out);

}  // namespace loadstone::zarr
