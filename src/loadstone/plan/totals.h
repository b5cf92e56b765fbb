#pragma once

#include <cstdint>
#include <vector>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"
#include "loadstone/plan/strategies.h"

/// Inside plan/: what a list of Reads costs, counted piece by piece without keeping any.
namespace loadstone::planning {

/// What depends on the Reads. In bytes of files: useful + over_read = bytes_read; a piece that is encoded counts as
/// useful by the share of its elements that is needed.
struct ReadCost {
  std::int64_t bytes_read = 0;
  std::int64_t useful_bytes = 0;
  std::int64_t over_read_bytes = 0;
  std::int64_t pieces = 0;
  std::int64_t absent_pieces = 0;
  std::int64_t requests = 0;
  std::int64_t largest_plain_bytes = 0;    ///< most that one plain piece's share of a Read brings in
  std::int64_t largest_encoded_bytes = 0;  ///< most that one encoded piece takes, stored and decoded
};
ReadCost cost_of(const std::vector<ArrayNeed>& needs, const std::vector<Read>& reads, const PlanOptions& options);

/// What depends on the slots alone.
struct SlotCost {
  std::int64_t bytes_needed = 0;
  std::int64_t bytes_placed = 0;
  std::int64_t host_bytes = 0;
  std::int64_t device_bytes = 0;  ///< most on one device
};
SlotCost cost_of_slots(const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots);

/// True if slots on this place are charged to host memory.
bool is_host_memory(Place place);

/// Staging of `threads` workers with windows of `window_bytes`.
std::int64_t staging_bytes(const ReadCost& cost, std::int64_t window_bytes, int threads, bool to_gpu);

/// The sum of everything. `once` is the useful_bytes of reading each needed byte once.
PlanTotals totals_of(Strategy strategy, const SlotCost& slots, const ReadCost& reads, std::int64_t once,
                     const PlanOptions& options);

/// total += value; Error{usage} above 2^63-1.
void add_bytes(std::int64_t& total, std::int64_t value);

}  // namespace loadstone::planning
