#include "loadstone/plan/totals.h"

#include <algorithm>
#include <map>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone::planning {
namespace {

__extension__ using Wide = __int128;

std::int64_t share(std::int64_t bytes, std::int64_t elems, std::int64_t of) {
  if (of == 0) return 0;
  return static_cast<std::int64_t>(static_cast<Wide>(bytes) * elems / of);
}

/// The needed regions that reach into a Read.
std::vector<Box> regions_in(const ArrayNeed& need, const Box& box) {
  std::vector<Box> out;
  for (const Box& region : need.regions) {
    if (common_elems(region, box) > 0) out.push_back(region);
  }
  return out;
}

std::int64_t common_elems_of(const std::vector<Box>& regions, const Box& box) {
  std::int64_t count = 0;
  for (const Box& region : regions) count += common_elems(region, box);
  return count;
}

void add_plain(ReadCost& cost, const Piece& piece, const Box& box, DType dtype, std::int64_t useful,
               const PlanOptions& options) {
  const ReadPattern pattern = read_pattern(piece, box, dtype, options.cost);
  const std::int64_t bytes = pattern.bytes_read();
  add_bytes(cost.bytes_read, bytes);
  add_bytes(cost.useful_bytes, useful);
  cost.over_read_bytes += bytes - useful;
  add_bytes(cost.requests, pattern.num_reads() * ceil_div(pattern.run_bytes, options.window_bytes));
  cost.largest_plain_bytes = std::max(cost.largest_plain_bytes, bytes);
}

void add_encoded(ReadCost& cost, const Piece& piece, const ArrayEntry& entry, std::int64_t useful_elems) {
  const std::int64_t useful = share(piece.stored_bytes, useful_elems, piece.box.num_elems());
  add_bytes(cost.bytes_read, piece.stored_bytes);
  cost.useful_bytes += useful;
  cost.over_read_bytes += piece.stored_bytes - useful;
  ++cost.requests;
  std::int64_t memory = entry.encodings[static_cast<std::size_t>(piece.encoding)].reads_file ? 0 : piece.stored_bytes;
  add_bytes(memory, entry.dtype.nbytes(num_elems(piece.stored_shape)));
  cost.largest_encoded_bytes = std::max(cost.largest_encoded_bytes, memory);
}

/// All of an array of plain parts: each part is one run in either order of elements, so no piece needs a look.
void add_whole(ReadCost& cost, const ArrayNeed& need, const PlanOptions& options) {
  const ArrayEntry& entry = *need.entry;
  std::int64_t elems = 1;
  for (int d = 1; d < entry.shape.size(); ++d) elems *= entry.shape[d];
  const std::vector<std::int64_t>& cum = entry.tiling.row_bounds();
  const std::int64_t read = entry.nbytes();
  for (std::size_t part = 0; part + 1 < cum.size(); ++part) {
    if (cum[part] == cum[part + 1]) continue;
    const std::int64_t bytes = entry.dtype.nbytes((cum[part + 1] - cum[part]) * elems);
    ++cost.pieces;
    cost.requests += ceil_div(bytes, options.window_bytes);
    cost.largest_plain_bytes = std::max(cost.largest_plain_bytes, bytes);
  }
  std::int64_t useful = 0;
  for (const Box& region : need.regions) useful += entry.dtype.nbytes(region.num_elems());
  add_bytes(cost.bytes_read, read);
  add_bytes(cost.useful_bytes, useful);
  cost.over_read_bytes += read - useful;
}

void add_read(ReadCost& cost, const ArrayNeed& need, const Read& read, const PlanOptions& options) {
  const DType dtype = need.entry->dtype;
  const Tiling& tiling = need.entry->tiling;
  if (!tiling.scalar() && dtype.whole_bytes() && read.box == Box::whole(need.entry->shape) && tiling.all_plain()) {
    return add_whole(cost, need, options);
  }
  const std::vector<Box> regions = regions_in(need, read.box);
  const bool all_useful = regions.size() == 1 && regions[0].contains(read.box);
  tiling.for_each_overlap(read.box, dtype, [&](const Piece& piece) {
    const Box box = intersect(piece.box, read.box);
    if (box.empty()) return true;
    ++cost.pieces;
    if (piece.absent) {
      ++cost.absent_pieces;
      return true;
    }
    const std::int64_t useful = all_useful ? box.num_elems() : common_elems_of(regions, box);
    if (piece.encoding >= 0) {
      add_encoded(cost, piece, *need.entry, useful);
    } else {
      add_plain(cost, piece, box, dtype, dtype.nbytes(useful), options);
    }
    return true;
  });
}

}  // namespace

void add_bytes(std::int64_t& total, std::int64_t value) {
  const auto sum = checked_add(total, value);
  if (!sum) throw usage_error("the plan moves more than 2^63-1 bytes");
  total = *sum;
}

bool is_host_memory(Place place) {
  return place.host_accessible() && place.kind != PlaceKind::managed;
}

ReadCost cost_of(const std::vector<ArrayNeed>& needs, const std::vector<Read>& reads, const PlanOptions& options) {
  ReadCost cost;
  for (const Read& read : reads) {
    const ArrayNeed& need = needs[static_cast<std::size_t>(read.array)];
    try {
      add_read(cost, need, read, options);
    } catch (const Error& error) {
      throw error.with_prefix(cat("'", printable(need.entry->name), "'"));
    }
  }
  return cost;
}

SlotCost cost_of_slots(const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots) {
  SlotCost cost;
  for (const ArrayNeed& need : needs) {
    for (const Box& region : need.regions) add_bytes(cost.bytes_needed, need.entry->dtype.nbytes(region.num_elems()));
  }
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> devices;
  for (const Slot& slot : slots) {
    add_bytes(cost.bytes_placed, slot.nbytes);
    const Place place = slot.shard.device.place;
    if (is_host_memory(place)) {
      cost.host_bytes += slot.nbytes;
    } else {
      devices[{static_cast<std::int32_t>(place.kind), place.ordinal}] += slot.nbytes;
    }
  }
  for (const auto& [place, bytes] : devices) cost.device_bytes = std::max(cost.device_bytes, bytes);
  return cost;
}

/// Staging of all workers. To a GPU each has two page-locked slots: one is read into while the other is on its way.
std::int64_t staging_bytes(const ReadCost& cost, std::int64_t window_bytes, int threads, bool to_gpu) {
  std::int64_t worker = std::min(window_bytes, cost.largest_plain_bytes);
  if (to_gpu) worker = 2 * window_bytes + (cost.over_read_bytes > 0 ? worker : 0);
  add_bytes(worker, cost.largest_encoded_bytes);
  const auto all = checked_mul(worker, threads);
  if (!all) throw usage_error("the plan needs more than 2^63-1 bytes of staging");
  return *all;
}

PlanTotals totals_of(Strategy strategy, const SlotCost& slots, const ReadCost& reads, std::int64_t once,
                     const PlanOptions& options) {
  PlanTotals out;
  out.bytes_needed = slots.bytes_needed;
  out.bytes_placed = slots.bytes_placed;
  out.bytes_read = reads.bytes_read;
  out.over_read_bytes = reads.over_read_bytes;
  out.duplicate_bytes = std::max<std::int64_t>(reads.useful_bytes - once, 0);
  out.copied_bytes = strategy == Strategy::per_device ? 0 : slots.bytes_placed - slots.bytes_needed;
  out.pieces = reads.pieces;
  out.requests = reads.requests;
  out.absent_pieces = reads.absent_pieces;
  out.staging_bytes = staging_bytes(reads, options.window_bytes, options.threads, slots.device_bytes > 0);
  out.peak_host_bytes = slots.host_bytes;
  add_bytes(out.peak_host_bytes, out.staging_bytes);
  out.peak_device_bytes = slots.device_bytes;
  out.predicted_seconds = static_cast<double>(reads.requests) * options.cost.request_seconds +
                          static_cast<double>(reads.bytes_read) / options.cost.bytes_per_second;
  return out;
}

}  // namespace loadstone::planning
