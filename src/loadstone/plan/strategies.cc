#include "loadstone/plan/strategies.h"

#include <algorithm>
#include <utility>

#include "loadstone/base/error.h"
#include "loadstone/shard/process_view.h"

namespace loadstone::planning {
namespace {

void add_read(std::vector<Read>& reads, const ArrayNeed& need, Box box, const std::vector<Slot>& slots) {
  Read read{need.array, std::move(box), {}};
  for (const std::int32_t slot : need.slots) {
    Box part = intersect(slots[static_cast<std::size_t>(slot)].shard.box, read.box);
    if (!part.empty()) read.targets.push_back({slot, std::move(part)});
  }
  reads.push_back(std::move(read));
}

/// The piece that holds the element at `index`.
Box piece_at(const ArrayEntry& entry, const Dims& index) {
  Box element{index, index};
  for (std::int64_t& end : element.end) ++end;
  Box out = element;
  entry.tiling.for_each_overlap(element, entry.dtype, [&](const Piece& piece) {
    out = piece.box;
    return false;
  });
  return out;
}

/// `box`, which lies in one part, out to the borders of the pieces at its corners. A part is a regular grid, so these
/// are the borders everywhere.
Box grow_in_part(const ArrayEntry& entry, const Box& box) {
  Dims last = box.end;
  for (std::int64_t& index : last) --index;
  return {piece_at(entry, box.begin).begin, piece_at(entry, last).end};
}

bool same_but_rows(const Box& a, const Box& b) {
  for (int d = 1; d < a.ndim(); ++d) {
    if (a.begin[d] != b.begin[d] || a.end[d] != b.end[d]) return false;
  }
  return true;
}

}  // namespace

std::int64_t common_elems(const Box& a, const Box& b) {
  std::int64_t count = 1;
  for (int d = 0; d < a.ndim(); ++d) {
    const std::int64_t extent = std::min(a.end[d], b.end[d]) - std::max(a.begin[d], b.begin[d]);
    if (extent <= 0) return 0;
    count *= extent;
  }
  return count;
}

std::vector<ArrayNeed> needs_of(const Catalog& catalog, const std::vector<PlannedArray>& arrays,
                                const std::vector<Slot>& slots) {
  std::vector<ArrayNeed> out;
  std::size_t next = 0;
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    ArrayNeed need;
    need.array = static_cast<std::int32_t>(a);
    need.entry = &catalog.arrays[static_cast<std::size_t>(arrays[a].catalog_index)];
    std::vector<Box> boxes;
    for (; next < slots.size() && slots[next].array == need.array; ++next) {
      if (slots[next].shard.box.empty()) continue;
      need.slots.push_back(static_cast<std::int32_t>(next));
      boxes.push_back(slots[next].shard.box);
    }
    std::sort(boxes.begin(), boxes.end());
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
    need.regions = boxes.size() > 1 ? merge_boxes(std::move(boxes)) : std::move(boxes);
    std::sort(need.regions.begin(), need.regions.end());
    out.push_back(std::move(need));
  }
  return out;
}

std::vector<Box> grow_to_pieces(const ArrayEntry& entry, const std::vector<Box>& regions) {
  if (entry.tiling.all_plain() || entry.tiling.scalar() || entry.encodings.empty()) return regions;
  const std::vector<std::int64_t>& cum = entry.tiling.row_bounds();
  std::vector<Box> grown;
  for (const Box& region : regions) {
    const auto first = std::upper_bound(cum.begin(), cum.end(), region.begin[0]) - cum.begin() - 1;
    const std::size_t before = grown.size();
    for (auto part = static_cast<std::size_t>(first); part + 1 < cum.size() && cum[part] < region.end[0]; ++part) {
      if (cum[part] == cum[part + 1]) continue;
      Box inside = region;
      inside.begin[0] = std::max(region.begin[0], cum[part]);
      inside.end[0] = std::min(region.end[0], cum[part + 1]);
      Box box = grow_in_part(entry, inside);
      if (grown.size() > before && grown.back().end[0] == box.begin[0] && same_but_rows(grown.back(), box)) {
        grown.back().end[0] = box.end[0];
      } else {
        grown.push_back(std::move(box));
      }
    }
  }
  if (grown.size() > 1) grown = merge_boxes(std::move(grown));
  std::sort(grown.begin(), grown.end());
  return grown;
}

std::vector<Read> reads_of(Strategy strategy, const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots) {
  std::vector<Read> reads;
  for (const ArrayNeed& need : needs) {
    if (need.slots.empty()) continue;
    switch (strategy) {
      case Strategy::global: add_read(reads, need, Box::whole(need.entry->shape), slots); break;
      case Strategy::per_device:
        for (const std::int32_t slot : need.slots) {
          const Box& box = slots[static_cast<std::size_t>(slot)].shard.box;
          reads.push_back({need.array, box, {{slot, box}}});
        }
        break;
      case Strategy::per_process:
        for (Box& box : grow_to_pieces(*need.entry, need.regions)) add_read(reads, need, std::move(box), slots);
        break;
      default: throw internal_error("reads_of: not a strategy of one process");
    }
  }
  return reads;
}

}  // namespace loadstone::planning
