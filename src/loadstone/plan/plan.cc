#include "loadstone/plan/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/plan/choose.h"
#include "loadstone/plan/notes.h"

namespace loadstone {
namespace {

constexpr std::array<std::pair<Strategy, std::string_view>, 5> kStrategies = {{{Strategy::automatic, "auto"},
                                                                               {Strategy::global, "global"},
                                                                               {Strategy::per_device, "per_device"},
                                                                               {Strategy::per_process, "per_process"},
                                                                               {Strategy::exchange, "exchange"}}};

void check_options(const PlanOptions& options) {
  if (options.strategy == Strategy::exchange) {
    throw usage_error(
        "strategy 'exchange' needs an engine that carries bytes between processes, which this build lacks; use auto, "
        "global, per_device or per_process");
  }
  if (options.process < 0) throw usage_error(cat("process must be >= 0, found ", options.process));
  if (options.over_decompose < 1) throw usage_error(cat("over-decompose must be >= 1, found ", options.over_decompose));
  if (options.window_bytes < 1) throw usage_error(cat("window bytes must be >= 1, found ", options.window_bytes));
  if (options.threads < 1) throw usage_error(cat("threads must be >= 1, found ", options.threads));
  if (options.memory_budget && *options.memory_budget < 0) {
    throw usage_error(cat("memory budget must be >= 0 bytes, found ", *options.memory_budget));
  }
  const CostModel& cost = options.cost;
  if (!(cost.request_seconds >= 0) || !(cost.bytes_per_second > 0) || !(cost.max_over_read >= 1)) {
    throw usage_error(cat("cost model must have request seconds >= 0, bytes per second > 0 and over-read >= 1, found ",
                          format_fixed(cost.request_seconds, 9), ", ", format_fixed(cost.bytes_per_second, 0), " and ",
                          format_fixed(cost.max_over_read, 3)));
  }
}

void add_slots(const Sharding& sharding, const PlannedArray& array, std::int32_t number, std::int32_t process,
               std::vector<Slot>& slots) {
  for (Shard& shard : sharding.local_shards(array.shape, process)) {
    const std::int64_t nbytes = shard.box.empty() ? 0 : array.dtype.nbytes(shard.box.num_elems());
    slots.push_back({number, std::move(shard), nbytes});
  }
  if (slots.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw usage_error(cat("a plan holds at most 2^31-1 shards on one process, found ", slots.size()));
  }
}

}  // namespace

std::string_view to_string(Strategy strategy) {
  for (const auto& [value, name] : kStrategies) {
    if (value == strategy) return name;
  }
  return "unknown";
}

Strategy parse_strategy(std::string_view text) {
  std::vector<std::string> known;
  for (const auto& [value, name] : kStrategies) {
    if (name == text) return value;
    known.emplace_back(name);
  }
  if (text == "automatic") return Strategy::automatic;
  const std::string near = nearest(text, known);
  throw usage_error(cat("unknown strategy '", printable(text), "'", near.empty() ? "" : cat(", did you mean ", near),
                        "; known: ", join(known, ", ")));
}

Plan make_plan(const Catalog& catalog, const std::vector<ArrayRequest>& requests, const PlanOptions& options) {
  check_options(options);
  Plan plan;
  plan.process = options.process;
  for (const ArrayRequest& request : requests) {
    if (request.array < 0 || request.array >= static_cast<std::int64_t>(catalog.arrays.size())) {
      throw usage_error(cat("array ", request.array, " is not in the catalog, which has ", catalog.arrays.size()));
    }
    const ArrayEntry& entry = catalog.arrays[static_cast<std::size_t>(request.array)];
    request.sharding.check(entry.shape, entry.name);
    PlannedArray array{request.array, entry.name, entry.dtype, entry.shape, request.sharding, false, {}};
    const planning::FastPath path = planning::fast_path(entry, request.sharding);
    array.uniform_fast_path = path.taken;
    array.path_reason = path.reason;
    add_slots(request.sharding, array, static_cast<std::int32_t>(plan.arrays.size()), options.process, plan.slots);
    plan.arrays.push_back(std::move(array));
  }

  const std::vector<planning::ArrayNeed> needs = planning::needs_of(catalog, plan.arrays, plan.slots);
  std::vector<planning::Candidate> candidates = planning::work_out(needs, plan.slots, options);
  const std::size_t chosen = planning::choose(candidates, options);
  plan.considered = planning::explain_choice(candidates, chosen, options);
  planning::Candidate& taken = candidates[chosen];
  plan.strategy = taken.strategy;
  plan.options = taken.options;
  plan.reads = std::move(taken.reads);
  plan.totals = taken.totals;
  plan.notes = std::move(taken.notes);
  planning::add_notes(catalog, plan);
  return plan;
}

void for_each_piece_read(const Catalog& catalog, const Plan& plan, const Read& read,
                         const std::function<bool(const PieceRead&)>& fn) {
  const PlannedArray& array = plan.arrays[static_cast<std::size_t>(read.array)];
  const ArrayEntry& entry = catalog.arrays[static_cast<std::size_t>(array.catalog_index)];
  entry.tiling.for_each_overlap(read.box, entry.dtype, [&](const Piece& piece) {
    Box box = intersect(piece.box, read.box);
    return box.empty() || fn({piece, std::move(box)});
  });
}

}  // namespace loadstone
