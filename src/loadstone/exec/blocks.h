#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/array/view.h"
#include "loadstone/format/catalog.h"
#include "loadstone/plan/coalesce.h"

namespace loadstone {

/// A box of an array in memory: the address of box.begin and the byte stride of each dimension. Packed types lie in C
/// order without gaps and `strides_bytes` is not looked at.
struct Block {
  std::byte* data = nullptr;
  Box box;
  Dims strides_bytes;
};

/// Byte strides of a dense block in C order. Where elements are packed, whole bytes only (rounded down).
Dims dense_strides(const Shape& shape, DType dtype);
/// A dense C-order block.
Block dense_block(std::byte* data, const Box& box, DType dtype);

/// Copies `part` (array indices, inside both boxes) from one block to the other. swap as in strided_copy. Error{usage}
/// when a packed type would be cut inside a byte.
void copy_part(const Block& to, const Block& from, const Box& part, DType dtype, std::int64_t swap = 1);
/// Fills `part` with one element in native order. Error{usage} for packed types that do not divide a byte.
void fill_part(const Block& to, const Box& part, DType dtype, const std::byte* element);
/// Address of part.begin in the block. For packed types part has to begin at a byte.
std::byte* address_of(const Block& block, const Dims& index, DType dtype);

/// Where the elements of a window lie once its pattern's reads have been put behind one another: strides of the block,
/// and how many of its dimensions (in storage order, slowest first) step from read to read.
struct RunLayout {
  Dims strides_bytes;
  Dims order;  ///< storage order
  int outer = 0;
};
/// For types of whole bytes.
RunLayout run_layout(const Piece& piece, const Box& box, DType dtype, const ReadPattern& pattern);

/// Calls fn(offset in file, index of the read) for each read of the pattern, in file order. Stops and returns false
/// when fn does.
bool for_each_run(const ReadPattern& pattern, const std::function<bool(std::int64_t offset, std::int64_t i)>& fn);

/// Bytes that are reversed together on the way from the file; 1 when the file has the machine's order.
std::int64_t swap_of(const Piece& piece, DType dtype);

}  // namespace loadstone
