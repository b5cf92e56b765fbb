#include "loadstone/exec/blocks.h"

#include <bit>
#include <cstring>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

[[noreturn]] void cuts_byte(const Box& part, DType dtype) {
  throw usage_error(cat("box ", to_string(part), " cuts inside a byte: elements of ", to_string(dtype), " take ",
                        dtype.elem_bits(), " bits and are packed"));
}

/// Copies packed elements, run by run: a run is the part of the innermost dimensions that is dense on both sides.
void copy_packed(const Block& to, const Block& from, const Box& part, DType dtype) {
  const int ndim = part.ndim();
  int outer = ndim;  // dimensions that step from run to run
  std::int64_t run = 1;
  while (outer > 0) {
    run *= part.extent(--outer);
    if (part.extent(outer) != to.box.extent(outer) || part.extent(outer) != from.box.extent(outer)) break;
  }
  const std::int64_t bits = dtype.elem_bits();
  Dims index = part.begin;
  for (;;) {
    const std::int64_t at = linear_index(index, to.box);
    const std::int64_t source = linear_index(index, from.box);
    const bool ends = at + run == to.box.num_elems() && source + run == from.box.num_elems();
    if (at * bits % 8 != 0 || source * bits % 8 != 0 || (run * bits % 8 != 0 && !ends)) cuts_byte(part, dtype);
    std::memcpy(to.data + at * bits / 8, from.data + source * bits / 8, static_cast<std::size_t>(dtype.nbytes(run)));
    int d = outer - 1;
    for (; d >= 0; --d) {
      if (++index[d] < part.end[d]) break;
      index[d] = part.begin[d];
    }
    if (d < 0) return;
  }
}

}  // namespace

Dims dense_strides(const Shape& shape, DType dtype) {
  Dims strides = c_strides(shape);
  for (std::int64_t& stride : strides) {
    stride = dtype.whole_bytes() ? stride * dtype.itemsize() : stride * dtype.elem_bits() / 8;
  }
  return strides;
}

Block dense_block(std::byte* data, const Box& box, DType dtype) {
  return {data, box, dense_strides(box.shape(), dtype)};
}

std::byte* address_of(const Block& block, const Dims& index, DType dtype) {
  if (!dtype.whole_bytes()) {
    const std::int64_t bit = linear_index(index, block.box) * dtype.elem_bits();
    if (bit % 8 != 0) cuts_byte({index, block.box.end}, dtype);
    return block.data + bit / 8;
  }
  std::int64_t offset = 0;
  for (int d = 0; d < index.size(); ++d) offset += (index[d] - block.box.begin[d]) * block.strides_bytes[d];
  return block.data + offset;
}

void copy_part(const Block& to, const Block& from, const Box& part, DType dtype, std::int64_t swap) {
  if (part.empty()) return;
  if (!dtype.whole_bytes()) {
    copy_packed(to, from, part, dtype);
    return;
  }
  strided_copy({address_of(to, part.begin, dtype), to.strides_bytes},
               {address_of(from, part.begin, dtype), from.strides_bytes}, part.shape(), dtype.itemsize(), swap);
}

void fill_part(const Block& to, const Box& part, DType dtype, const std::byte* element) {
  if (part.empty()) return;
  if (dtype.whole_bytes()) {
    std::byte* source = const_cast<std::byte*>(element);  // strided_copy only reads it
    strided_copy({address_of(to, part.begin, dtype), to.strides_bytes}, {source, Dims::filled(part.ndim(), 0)},
                 part.shape(), dtype.itemsize());
    return;
  }
  const int bits = dtype.elem_bits();
  if (bits > 8 || 8 % bits != 0) cuts_byte(part, dtype);
  const unsigned mask = (1U << static_cast<unsigned>(bits)) - 1U;
  unsigned pattern = 0;
  for (int at = 0; at < 8; at += bits)
    pattern |= (std::to_integer<unsigned>(*element) & mask) << static_cast<unsigned>(at);
  const Shape shape = part.shape();
  View filled = View::allocate(shape, dtype);
  std::memset(filled.data(), static_cast<int>(pattern), static_cast<std::size_t>(filled.nbytes()));
  copy_packed(to, dense_block(filled.data(), part, dtype), part, dtype);
}

RunLayout run_layout(const Piece& piece, const Box& box, DType dtype, const ReadPattern& pattern) {
  RunLayout out;
  const int ndim = box.ndim();
  out.order = storage_order(ndim, piece.order);
  out.strides_bytes = storage_strides_bytes(piece, dtype);
  out.outer = ndim;
  std::int64_t span = dtype.itemsize();
  while (out.outer > 0) {
    const int d = static_cast<int>(out.order[out.outer - 1]);
    const std::int64_t next = span + (box.extent(d) - 1) * out.strides_bytes[d];
    if (next > pattern.run_bytes) break;
    span = next;
    --out.outer;
  }
  std::int64_t stride = pattern.run_bytes;
  for (int k = out.outer - 1; k >= 0; --k) {
    const int d = static_cast<int>(out.order[k]);
    out.strides_bytes[d] = stride;
    stride *= box.extent(d);
  }
  if (span != pattern.run_bytes || stride != pattern.bytes_read()) {
    throw internal_error(
        cat("runs of ", pattern.run_bytes, " bytes do not fit box ", to_string(box), " of piece ", piece.number));
  }
  return out;
}

bool for_each_run(const ReadPattern& pattern, const std::function<bool(std::int64_t, std::int64_t)>& fn) {
  const std::int64_t count = pattern.num_reads();
  Dims index = Dims::filled(pattern.counts.size(), 0);
  std::int64_t offset = pattern.offset_bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!fn(offset, i)) return false;
    for (int level = index.size() - 1; level >= 0; --level) {
      offset += pattern.strides_bytes[level];
      if (++index[level] < pattern.counts[level]) break;
      offset -= pattern.counts[level] * pattern.strides_bytes[level];
      index[level] = 0;
    }
  }
  return true;
}

std::int64_t swap_of(const Piece& piece, DType dtype) {
  constexpr ByteOrder kNative = std::endian::native == std::endian::big ? ByteOrder::big : ByteOrder::little;
  return piece.byte_order == kNative || !dtype.whole_bytes() ? 1 : dtype.swap_bytes();
}

}  // namespace loadstone
