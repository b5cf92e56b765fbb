#include "loadstone/plan/choose.h"

#include <algorithm>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone::planning {
namespace {

constexpr std::int64_t kLeastWindow = 64 << 10;
constexpr std::int64_t kPage = 4096;
// Pieces that `global` may have beyond those of per_process and still be counted one by one.
constexpr std::int64_t kManyPieces = 1 << 17;

std::string exact_bytes(std::int64_t bytes) {
  return cat(format_count(bytes), bytes == 1 ? " byte" : " bytes");
}

/// The largest window and number of threads whose staging fits into `room`; false when nothing does.
bool fit_staging(const ReadCost& cost, std::int64_t room, bool to_gpu, PlanOptions& options) {
  if (staging_bytes(cost, options.window_bytes, options.threads, to_gpu) <= room) return true;
  const std::int64_t least = std::min({options.window_bytes, kLeastWindow, cost.largest_plain_bytes});
  for (int threads = options.threads; threads >= 1; --threads) {
    if (staging_bytes(cost, least, threads, to_gpu) > room) continue;
    const std::int64_t slots = to_gpu ? (cost.over_read_bytes > 0 ? 3 : 2) : 1;
    std::int64_t window = std::min(options.window_bytes, (room / threads - cost.largest_encoded_bytes) / slots);
    if (!to_gpu && window >= cost.largest_plain_bytes) window = options.window_bytes;
    if (window >= 2 * kPage && window < options.window_bytes) window -= window % kPage;
    options.window_bytes = std::max({window, least, std::int64_t{1}});
    options.threads = threads;
    return true;
  }
  return false;
}

void keep_budget(Candidate& candidate, const std::vector<ArrayNeed>& needs, const SlotCost& slots, ReadCost& cost) {
  if (!candidate.options.memory_budget) return;
  const std::int64_t budget = *candidate.options.memory_budget;
  const PlanOptions asked = candidate.options;
  if (!fit_staging(cost, budget - slots.host_bytes, slots.device_bytes > 0, candidate.options)) {
    // The error names the least that would do.
    candidate.fits = false;
    candidate.options.window_bytes = std::min(asked.window_bytes, kLeastWindow);
    candidate.options.threads = 1;
    return;
  }
  if (candidate.options.window_bytes != asked.window_bytes) {
    candidate.notes.push_back(cat("windows of ", exact_bytes(candidate.options.window_bytes), " instead of ",
                                  exact_bytes(asked.window_bytes), " to stay within the memory budget of ",
                                  exact_bytes(budget)));
    cost = cost_of(needs, candidate.reads, candidate.options);
  }
  if (candidate.options.threads != asked.threads) {
    candidate.notes.push_back(cat(candidate.options.threads, " of ", asked.threads,
                                  " threads to stay within the memory budget of ", exact_bytes(budget)));
  }
}

/// True when counting the pieces of whole arrays would cost far more than planning what is needed. All-plain arrays are
/// counted always: their pieces are files, few and already listed.
bool too_many_pieces(const std::vector<ArrayNeed>& needs, std::int64_t pieces_needed) {
  std::int64_t all = 0;
  for (const ArrayNeed& need : needs) {
    if (!need.slots.empty() && !need.entry->tiling.all_plain()) all += need.entry->tiling.num_pieces();
  }
  return all > kManyPieces && all / 2 > pieces_needed;
}

std::string refusal(const Candidate& candidate) {
  const PlanTotals& totals = candidate.totals;
  const std::int64_t destinations = totals.peak_host_bytes - totals.staging_bytes;
  return cat("the plan needs more host memory than the memory budget allows: expected at most ",
             exact_bytes(*candidate.options.memory_budget), ", found at least ", exact_bytes(totals.peak_host_bytes),
             " = ", exact_bytes(destinations), " of destinations + ", exact_bytes(totals.staging_bytes),
             " of staging for ", candidate.options.threads, candidate.options.threads == 1 ? " thread" : " threads");
}

std::string times_more(std::int64_t more, std::int64_t less) {
  if (less == 0) return "";
  return cat(", ", format_fixed(static_cast<double>(more) / static_cast<double>(less), 2), " times as many");
}

std::string reason_for(const Candidate& one, const Candidate& winner, const PlanOptions& options) {
  if (&one == &winner) {
    if (options.strategy != Strategy::automatic) return "asked for";
    return cat("reads the least: ", exact_bytes(one.totals.bytes_read), " in ", format_count(one.totals.requests),
               one.totals.requests == 1 ? " request" : " requests");
  }
  if (!one.fits) return refusal(one);
  if (!one.counted) {
    return cat("touches all ", format_count(one.totals.pieces), " pieces, ", to_string(winner.strategy), " only ",
               format_count(winner.totals.pieces), "; its bytes were not counted and are at least those of ",
               to_string(Strategy::per_process));
  }
  const std::int64_t mine = one.totals.bytes_read;
  const std::int64_t best = winner.totals.bytes_read;
  if (mine > best) return cat("reads ", exact_bytes(mine), times_more(mine, best), " as ", to_string(winner.strategy));
  if (mine < best) return cat("not asked for; would read ", exact_bytes(mine), " instead of ", exact_bytes(best));
  if (one.memory_at_full_windows > winner.memory_at_full_windows) {
    return cat("reads as many bytes as ", to_string(winner.strategy), " but needs ",
               exact_bytes(one.memory_at_full_windows), " of host memory instead of ",
               exact_bytes(winner.memory_at_full_windows));
  }
  if (options.strategy != Strategy::automatic) return cat("not asked for; would read ", exact_bytes(mine), ", too");
  return cat("reads as many bytes as ", to_string(winner.strategy),
             " and at full windows needs as much memory; ties go to ", to_string(winner.strategy));
}

bool better(const Candidate& a, const Candidate& b) {
  if (a.fits != b.fits) return a.fits;
  if (a.counted != b.counted) return a.counted;
  if (a.totals.bytes_read != b.totals.bytes_read) return a.totals.bytes_read < b.totals.bytes_read;
  return a.memory_at_full_windows < b.memory_at_full_windows;
}

}  // namespace

std::vector<Candidate> work_out(const std::vector<ArrayNeed>& needs, const std::vector<Slot>& slots,
                                const PlanOptions& options) {
  const SlotCost slot_cost = cost_of_slots(needs, slots);
  std::vector<Candidate> out;
  std::vector<ReadCost> costs;
  for (const Strategy strategy : {Strategy::per_process, Strategy::per_device, Strategy::global}) {
    Candidate candidate;
    candidate.strategy = strategy;
    candidate.options = options;
    candidate.reads = reads_of(strategy, needs, slots);
    ReadCost cost;
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const Candidate& c) { return c.reads == candidate.reads; });
    if (same != out.end()) {
      cost = costs[static_cast<std::size_t>(same - out.begin())];
    } else if (strategy == Strategy::global && options.strategy != Strategy::global &&
               too_many_pieces(needs, costs[0].pieces)) {
      candidate.counted = false;
      cost = costs[0];
      cost.pieces = 0;
      for (const ArrayNeed& need : needs) cost.pieces += need.slots.empty() ? 0 : need.entry->tiling.num_pieces();
    } else {
      cost = cost_of(needs, candidate.reads, options);
    }
    costs.push_back(cost);
    keep_budget(candidate, needs, slot_cost, cost);
    candidate.totals = totals_of(strategy, slot_cost, cost, costs[0].useful_bytes, candidate.options);
    cost.largest_plain_bytes = cost.largest_plain_bytes > 0 ? candidate.options.window_bytes : 0;
    candidate.memory_at_full_windows =
        slot_cost.host_bytes +
        staging_bytes(cost, candidate.options.window_bytes, candidate.options.threads, slot_cost.device_bytes > 0);
    out.push_back(std::move(candidate));
  }
  return out;
}

std::size_t choose(const std::vector<Candidate>& candidates, const PlanOptions& options) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (options.strategy == candidates[i].strategy) {
      best = i;
      break;
    }
    if (options.strategy == Strategy::automatic && better(candidates[i], candidates[best])) best = i;
  }
  const Candidate& taken = candidates[best];
  if (!taken.fits) {
    throw Error(ErrorKind::system, refusal(taken),
                {.file = {},
                 .expected = cat("at most ", *options.memory_budget, " bytes"),
                 .found = cat(taken.totals.peak_host_bytes, " bytes"),
                 .os_error = 0});
  }
  return best;
}

std::vector<Considered> explain_choice(const std::vector<Candidate>& candidates, std::size_t chosen,
                                       const PlanOptions& options) {
  std::vector<Considered> out;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    out.push_back({candidates[i].strategy, i == chosen, candidates[i].totals,
                   reason_for(candidates[i], candidates[chosen], options)});
  }
  return out;
}

}  // namespace loadstone::planning
