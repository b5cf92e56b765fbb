#include "loadstone/plan/coalesce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"

namespace loadstone {
namespace {

/// Equal steps of `stride` units; a unit is a byte, or a bit where elements are packed.
struct Level {
  std::int64_t count = 1;
  std::int64_t stride = 0;
};

/// A box inside a stored block as one contiguous run and the levels on which it repeats, innermost first.
struct Runs {
  std::int64_t offset = 0;
  std::int64_t run = 0;
  std::vector<Level> levels;
};

std::int64_t units_of_element(DType dtype) {
  return dtype.whole_bytes() ? dtype.itemsize() : dtype.elem_bits();
}

Error too_large(const Piece& piece) {
  return data_error(cat("piece ", piece.number, " of stored shape ", to_string(piece.stored_shape), " at byte ",
                        piece.offset_bytes, " ends beyond 2^63-1 bytes"));
}

/// Strides of the stored block in units, one for each array dimension, then the size of the block.
std::pair<Dims, std::int64_t> block_strides(const Piece& piece, DType dtype) {
  const int ndim = piece.stored_shape.size();
  Dims strides = Dims::filled(ndim, 0);
  std::int64_t stride = units_of_element(dtype);
  const Dims order = storage_order(ndim, piece.order);
  for (int k = ndim - 1; k >= 0; --k) {
    const int d = static_cast<int>(order[k]);
    strides[d] = stride;
    const auto next = checked_mul(stride, std::max<std::int64_t>(piece.stored_shape[d], 1));
    if (!next) throw too_large(piece);
    stride = *next;
  }
  return {strides, stride};
}

void check_inside(const Piece& piece, const Box& sub) {
  bool good = sub.ndim() == piece.box.ndim() && sub.ndim() == piece.stored_shape.size() && !sub.empty() &&
              piece.box.contains(sub);
  for (int d = 0; good && d < sub.ndim(); ++d) good = sub.end[d] - piece.box.begin[d] <= piece.stored_shape[d];
  if (!good) {
    throw internal_error(cat("box ", to_string(sub), " is not a part of piece ", piece.number, " ",
                             to_string(piece.box), " of stored shape ", to_string(piece.stored_shape)));
  }
}

Runs exact_runs(const Piece& piece, const Box& sub, DType dtype) {
  check_inside(piece, sub);
  const auto [strides, block] = block_strides(piece, dtype);
  const std::int64_t block_bytes = dtype.whole_bytes() ? block : ceil_div(block, 8);
  if (!checked_add(piece.offset_bytes, block_bytes)) throw too_large(piece);

  Runs out;
  out.run = units_of_element(dtype);
  const Dims order = storage_order(sub.ndim(), piece.order);
  for (int k = sub.ndim() - 1; k >= 0; --k) {
    const int d = static_cast<int>(order[k]);
    const std::int64_t count = sub.extent(d);
    out.offset += (sub.begin[d] - piece.box.begin[d]) * strides[d];
    if (count == 1) continue;
    if (out.levels.empty() && strides[d] == out.run) {
      out.run *= count;
    } else if (!out.levels.empty() && strides[d] == out.levels.back().count * out.levels.back().stride) {
      out.levels.back().count *= count;
    } else {
      out.levels.push_back({count, strides[d]});
    }
  }
  if (dtype.whole_bytes()) return out;

  bool whole = out.offset % 8 == 0 && (out.run % 8 == 0 || (out.levels.empty() && out.offset + out.run == block));
  for (const Level& level : out.levels) whole = whole && level.stride % 8 == 0;
  if (!whole) {
    throw usage_error(cat("box ", to_string(sub), " cuts inside a byte: elements of ", to_string(dtype), " take ",
                          dtype.elem_bits(), " bits and are packed: expected runs of whole bytes, found runs of ",
                          out.run, " bits at bit ", out.offset));
  }
  out.offset /= 8;
  out.run = ceil_div(out.run, 8);
  for (Level& level : out.levels) level.stride /= 8;
  return out;
}

ReadPattern to_pattern(const Piece& piece, const Box& sub, DType dtype, const Runs& runs, std::size_t first_level) {
  ReadPattern out;
  out.offset_bytes = piece.offset_bytes + runs.offset;
  out.run_bytes = runs.run;
  out.needed_bytes = dtype.nbytes(sub.num_elems());
  for (std::size_t i = runs.levels.size(); i > first_level; --i) {
    out.counts.push_back(runs.levels[i - 1].count);
    out.strides_bytes.push_back(runs.levels[i - 1].stride);
  }
  return out;
}

}  // namespace

std::int64_t ReadPattern::num_reads() const {
  std::int64_t count = 1;
  for (const std::int64_t n : counts) count *= n;
  return count;
}

Dims storage_order(int ndim, ElementOrder order) {
  Dims out = Dims::filled(ndim, 0);
  for (int k = 0; k < ndim; ++k) out[k] = order == ElementOrder::c ? k : ndim - 1 - k;
  return out;
}

Dims storage_strides_bytes(const Piece& piece, DType dtype) {
  if (!dtype.whole_bytes()) {
    throw usage_error(cat("elements of ", to_string(dtype), " have no stride in bytes: they take ", dtype.elem_bits(),
                          " bits and are packed"));
  }
  return block_strides(piece, dtype).first;
}

ReadPattern exact_pattern(const Piece& piece, const Box& sub, DType dtype) {
  return to_pattern(piece, sub, dtype, exact_runs(piece, sub, dtype), 0);
}

ReadPattern read_pattern(const Piece& piece, const Box& sub, DType dtype, const CostModel& cost) {
  Runs runs = exact_runs(piece, sub, dtype);
  const double limit = cost.max_over_read * static_cast<double>(dtype.nbytes(sub.num_elems()));
  std::int64_t outer_reads = 1;
  for (const Level& level : runs.levels) outer_reads *= level.count;
  if (outer_reads <= cost.exact_reads) return to_pattern(piece, sub, dtype, runs, 0);

  // Gaps grow from level to level (an outer gap contains an inner one), so the first level that is not worth merging
  // ends the search. A level of n runs saves n-1 requests and costs n-1 gaps: comparing one gap with one request
  // decides for all.
  std::size_t merged = 0;
  for (; merged < runs.levels.size(); ++merged) {
    const Level& level = runs.levels[merged];
    const std::int64_t gap = level.stride - runs.run;
    outer_reads /= level.count;
    const std::int64_t span = level.stride * (level.count - 1) + runs.run;
    const bool cheaper = static_cast<double>(gap) < cost.request_seconds * cost.bytes_per_second;
    if (!cheaper || static_cast<double>(span) * static_cast<double>(outer_reads) > limit) break;
    runs.run = span;
  }
  ReadPattern out = to_pattern(piece, sub, dtype, runs, merged);
  out.over_reads = merged > 0;
  return out;
}

}  // namespace loadstone
