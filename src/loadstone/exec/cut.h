#pragma once

#include <cstdint>
#include <functional>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/coalesce.h"

namespace loadstone {

/// How a box of one piece is cut into windows: extents of one window along each dimension.
struct Cut {
  Dims step;
  bool exact = false;  ///< read the runs as they lie in the file: gaps of such windows are other windows
};

/// Windows of at most limit_bytes of file bytes each (one element at least). Slowest stored dimensions are cut first,
/// so a window is a stretch of the file. A block in F order is cut in two directions when a stretch would give the
/// destination only a few bytes of each of its rows.
Cut cut_plain(const Piece& piece, const Box& box, DType dtype, const CostModel& cost, std::int64_t limit_bytes);

/// Calls fn(part) for each part of `box` cut in steps, in storage order. Stops and returns false when fn does.
bool for_each_step(const Piece& piece, const Box& box, const Dims& step, const std::function<bool(const Box&)>& fn);

}  // namespace loadstone
