#include "loadstone/exec/cut.h"

#include <algorithm>
#include <numeric>

namespace loadstone {

namespace {

constexpr std::int64_t kLineBytes = 1024;  // of one destination row: enough for the cache lines to come in a stream

Box first_window(const Box& box, const Dims& step) {
  Box out = box;
  for (int d = 0; d < box.ndim(); ++d) out.end[d] = box.begin[d] + step[d];
  return out;
}

/// The least step along each dimension that ends on a whole byte; 1 but for packed types.
Dims granules(const Piece& piece, DType dtype) {
  const int ndim = piece.stored_shape.size();
  if (dtype.whole_bytes()) return Dims::filled(ndim, 1);
  Dims out = piece.order == ElementOrder::c ? c_strides(piece.stored_shape) : f_strides(piece.stored_shape);
  for (std::int64_t& stride : out) stride = 8 / std::gcd<std::int64_t>(8, stride % 8 * dtype.elem_bits());
  return out;
}

/// A window of a block in F order whose destination rows are kLineBytes long, as long in the file as the limit allows.
Dims block_step(const Box& box, std::int64_t itemsize, std::int64_t limit_bytes) {
  const int ndim = box.ndim();
  Dims step = Dims::filled(ndim, 1);
  std::int64_t elems = std::max<std::int64_t>(limit_bytes / itemsize, 1);
  std::int64_t line = std::min(std::max<std::int64_t>(kLineBytes / itemsize, 1), elems);
  for (int d = ndim - 1; d > 0 && line > 1; --d) {
    step[d] = std::min(box.extent(d), line);
    line /= step[d];
    elems /= step[d];
  }
  for (int d = 0; d < ndim; ++d) {
    const std::int64_t grown = std::min(box.extent(d), elems < box.extent(d) ? step[d] * elems : box.extent(d));
    elems = elems * step[d] / grown;
    step[d] = grown;
    if (step[d] < box.extent(d)) break;
  }
  return step;
}

}  // namespace

Cut cut_plain(const Piece& piece, const Box& box, DType dtype, const CostModel& cost, std::int64_t limit_bytes) {
  Cut cut{box.shape(), false};
  const auto fits = [&] {
    const Box window = first_window(box, cut.step);
    if (piece.absent) return dtype.nbytes(window.num_elems()) <= limit_bytes;
    return read_pattern(piece, window, dtype, cost).bytes_read() <= limit_bytes;
  };
  if (fits()) return cut;

  const int ndim = box.ndim();
  const Dims order = storage_order(ndim, piece.order);
  const Dims granule = granules(piece, dtype);
  for (int k = 0; k < ndim; ++k) {
    const int d = static_cast<int>(order[k]);
    const std::int64_t extent = box.extent(d);
    if (extent <= granule[d]) continue;
    std::int64_t low = 1;  // in granules, the longest known to fit
    cut.step[d] = granule[d];
    if (!fits()) {
      if (granule[d] > 1) break;  // packed: cutting further in would end inside a byte
      continue;
    }
    for (std::int64_t high = extent / granule[d] + 1; high - low > 1;) {
      const std::int64_t middle = low + (high - low) / 2;
      cut.step[d] = std::min(middle * granule[d], extent);
      (fits() ? low : high) = middle;
    }
    cut.step[d] = std::min(low * granule[d], extent);
    break;
  }
  const bool turned = piece.order == ElementOrder::f && !piece.absent && dtype.whole_bytes() && ndim > 1;
  if (turned && cut.step[ndim - 1] < box.extent(ndim - 1) && cut.step[ndim - 1] * dtype.itemsize() < kLineBytes &&
      !read_pattern(piece, box, dtype, cost).over_reads) {
    return {block_step(box, dtype.itemsize(), limit_bytes), true};
  }
  return cut;
}

bool for_each_step(const Piece& piece, const Box& box, const Dims& step, const std::function<bool(const Box&)>& fn) {
  const Dims order = storage_order(box.ndim(), piece.order);
  Dims cursor = box.begin;
  for (;;) {
    Box part{cursor, cursor};
    for (int d = 0; d < box.ndim(); ++d) part.end[d] = std::min(cursor[d] + step[d], box.end[d]);
    if (!fn(part)) return false;
    int k = box.ndim() - 1;
    for (; k >= 0; --k) {
      const int d = static_cast<int>(order[k]);
      cursor[d] += step[d];
      if (cursor[d] < box.end[d]) break;
      cursor[d] = box.begin[d];
    }
    if (k < 0) return true;
  }
}

}  // namespace loadstone
