#pragma once

#include <string>
#include <vector>

#include "loadstone/plan/plan.h"
#include "loadstone/plan/strategies.h"
#include "loadstone/plan/totals.h"

/// Inside plan/: comparing the strategies and keeping the memory budget.
namespace loadstone::planning {

/// One strategy worked out for the request.
struct Candidate {
  Strategy strategy = Strategy::per_process;
  PlanOptions options;  ///< window and threads fitted to the budget
  std::vector<Read> reads;
  PlanTotals totals;
  std::int64_t memory_at_full_windows = 0;  ///< peak host memory, were every staging slot as large as it may be
  std::vector<std::string> notes;           ///< what had to give way to the budget
  bool counted = true;  ///< false: touching all its pieces was not worth it, totals are lower bounds
  bool fits = true;     ///< in the memory budget
};

/// per_process, per_device, global, in this order.
std::vector<Candidate> work_out(const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots,
                                const PlanOptions& options);

/// Index of the one to take: the one asked for, or by least bytes read, then least peak host memory (at full windows:
/// reads smaller than a window are no merit), ties to the first.
/// Error{system} with both numbers when it does not fit in the memory budget.
std::size_t choose(const std::vector<Candidate>& candidates, const PlanOptions& options);

/// The comparison as it is kept in the plan.
std::vector<Considered> explain_choice(const std::vector<Candidate>& candidates, std::size_t chosen,
                                       const PlanOptions& options);

}  // namespace loadstone::planning
