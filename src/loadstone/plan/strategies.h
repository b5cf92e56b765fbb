#pragma once

#include <cstdint>
#include <vector>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

/// Inside plan/: who reads which box, for one process.
namespace loadstone::planning {

/// What one process needs of one array.
struct ArrayNeed {
  std::int32_t array = 0;  ///< index into Plan::arrays
  const ArrayEntry* entry = nullptr;
  std::vector<std::int32_t> slots;  ///< those with a non-empty box
  std::vector<Box> regions;         ///< disjoint, with the union of the slots' boxes
};

/// slots must be grouped by array, in the order of `arrays`.
std::vector<ArrayNeed> needs_of(const Catalog& catalog, const std::vector<PlannedArray>& arrays,
                                const std::vector<Slot>& slots);

/// The Reads of global, per_device or per_process.
std::vector<Read> reads_of(Strategy strategy, const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots);

/// Disjoint boxes that cover `regions`, grown to the borders of the encoded pieces they touch, so that each such piece
/// lies in one box and is read and decoded once (loading R16). Arrays without encoded pieces keep their regions.
std::vector<Box> grow_to_pieces(const ArrayEntry& entry, const std::vector<Box>& regions);

/// Number of elements that a and b have in common.
std::int64_t common_elems(const Box& a, const Box& b);

}  // namespace loadstone::planning
