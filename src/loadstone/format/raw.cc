#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"

namespace loadstone {

namespace {

bool recognise(std::span<const std::byte>) {
  return false;  // bytes without a header look like anything
}

/// Bytes of one row; extents of 0 count as 1 in the overflow check, so no later product over some of them overflows.
std::int64_t bytes_of(std::string_view path, const Shape& shape, DType dtype) {
  std::int64_t product = dtype.itemsize();
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw file_usage_error(path, cat("shape ", to_string(shape), " has a negative dimension"));
    const auto next = checked_mul(product, std::max<std::int64_t>(extent, 1));
    if (!next) throw file_usage_error(path, cat("shape ", to_string(shape), " is too large: more than 2^63-1 bytes"));
    product = *next;
  }
  return dtype.nbytes(num_elems(shape));
}

Shape whole_shape(std::string_view path, const ReadHints& hints, DType dtype, std::int64_t size, std::int64_t offset) {
  const std::int64_t payload = size - offset;
  if (hints.shape) {
    const std::int64_t wanted = bytes_of(path, *hints.shape, dtype);
    if (wanted != payload) {
      throw file_error(path,
                       cat(wanted > payload ? "truncated" : "trailing bytes", ": expected ", wanted,
                           " bytes for shape ", to_string(*hints.shape), " of ", to_string(dtype), " after ", offset,
                           ", found ", payload, " (file of ", size, " bytes)"),
                       cat(wanted, " bytes"), cat(payload, " bytes"));
    }
    if (hints.row_shape && (hints.shape->empty() || *hints.row_shape != Dims(hints.shape->span().subspan(1)))) {
      throw file_usage_error(
          path, cat("the shape ", to_string(*hints.shape), " has no rows of ", to_string(*hints.row_shape)));
    }
    return *hints.shape;
  }
  const std::int64_t row_bytes = bytes_of(path, *hints.row_shape, dtype);
  if (row_bytes == 0) {
    throw file_usage_error(path, cat("rows of shape ", to_string(*hints.row_shape),
                                     " have no bytes, so their number is unknown: give the whole shape (--shape)"));
  }
  if (payload % row_bytes != 0) {
    throw file_error(path,
                     cat("the size is not a multiple of a row: expected a multiple of ", row_bytes, " bytes (row ",
                         to_string(*hints.row_shape), " of ", to_string(dtype), ") after offset ", offset,
                         ", found a file of ", size, " bytes, ", payload % row_bytes, " too many"),
                     cat("a multiple of ", row_bytes, " bytes"), cat(payload, " bytes"));
  }
  Shape shape{payload / row_bytes};
  for (const std::int64_t extent : *hints.row_shape) shape.push_back(extent);
  return shape;
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  const std::string_view path = source.path();
  if (!hints.dtype) {
    throw file_usage_error(path,
                           "raw bytes do not tell their dtype: give --dtype, or a shard_meta.json beside the files");
  }
  if (!hints.row_shape && !hints.shape) {
    throw file_usage_error(
        path, "raw bytes do not tell their shape: give --row-shape (or --shape, the whole shape of each file)");
  }
  const DType dtype = hints.dtype->dtype;
  if (!dtype.whole_bytes()) {
    throw file_usage_error(path,
                           cat("raw rows of ", to_string(dtype), ", which fills no whole bytes, are not supported"));
  }
  const std::int64_t offset = hints.offset_bytes.value_or(0);
  if (offset < 0) throw file_usage_error(path, cat("the offset is ", offset, ": expected 0 or more bytes"));
  const std::int64_t size = source.stamp().size_bytes;
  if (offset > size) {
    throw file_error(path, cat("truncated: expected at least the offset of ", offset, " bytes, found ", size),
                     cat("at least ", offset, " bytes"), cat(size, " bytes"));
  }
  Header header;
  header.dtype = dtype;
  header.byte_order = dtype.swap_bytes() > 1 ? hints.dtype->order : ByteOrder::little;
  header.order = hints.order.value_or(ElementOrder::c);
  header.offset_bytes = offset;
  header.shape = whole_shape(path, hints, dtype, size, offset);
  return {std::move(header)};
}

}  // namespace

extern const Format raw_format;
const Format raw_format{"raw", {".bin", ".raw", ".dat"}, recognise, discover, nullptr};

}  // namespace loadstone
