#include <cmath>
#include <nlohmann/json.hpp>

#include "loadstone/base/text.h"
#include "loadstone/plan/describe.h"
#include "loadstone/plan/plan_json.h"

namespace loadstone {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kReads = 1000;

Json dims_json(const Dims& dims) {
  Json out = Json::array();
  for (const std::int64_t value : dims) out.push_back(value);
  return out;
}

Json box_json(const Box& box) {
  Json out = Json::array();
  for (int d = 0; d < box.ndim(); ++d) out.push_back(Json::array({box.begin[d], box.end[d]}));
  return out;
}

Json totals_json(const PlanTotals& totals) {
  return {{"bytes_needed", totals.bytes_needed},
          {"bytes_placed", totals.bytes_placed},
          {"bytes_read", totals.bytes_read},
          {"over_read_bytes", totals.over_read_bytes},
          {"duplicate_bytes", totals.duplicate_bytes},
          {"exchanged_bytes", totals.exchanged_bytes},
          {"copied_bytes", totals.copied_bytes},
          {"pieces", totals.pieces},
          {"requests", totals.requests},
          {"absent_pieces", totals.absent_pieces},
          {"staging_bytes", totals.staging_bytes},
          {"peak_host_bytes", totals.peak_host_bytes},
          {"peak_device_bytes", totals.peak_device_bytes},
          {"predicted_nanoseconds", planning::nanoseconds(totals.predicted_seconds)}};
}

Json array_json(const PlannedArray& array) {
  const Sharding& sharding = array.sharding;
  Json out = {{"name", printable(array.name)},
              {"dtype", to_string(array.dtype)},
              {"shape", dims_json(array.shape)},
              {"bytes", array.dtype.nbytes(num_elems(array.shape))},
              {"sharding", planning::describe(sharding)},
              {"devices", sharding.num_devices()}};
  if (sharding.kind() == Sharding::Kind::named) {
    out["mesh"] = to_string(sharding.mesh());
    out["spec"] = to_string(sharding.spec());
    out["uneven"] = sharding.uneven() == Uneven::ceil ? "ceil" : "error";
  }
  out["uniform_fast_path"] = array.uniform_fast_path;
  out["path_reason"] = array.path_reason;
  return out;
}

Json slot_json(const Slot& slot) {
  const Shard& shard = slot.shard;
  return {{"array", slot.array},
          {"device", shard.device.id},
          {"place", place_name(shard.device)},
          {"process", shard.device.process},
          {"replica_id", shard.replica_id},
          {"box", box_json(shard.box)},
          {"bytes", slot.nbytes}};
}

Json read_json(const Read& read) {
  Json targets = Json::array();
  for (const Target& target : read.targets) {
    targets.push_back(Json{{"slot", target.slot}, {"box", box_json(target.box)}});
  }
  return {{"array", read.array}, {"box", box_json(read.box)}, {"targets", std::move(targets)}};
}

}  // namespace

std::string to_json(const Catalog& catalog, const Plan& plan) {
  Json out = Json::object();  // not null: there operator[] fails to clean up when memory ends
  out["strategy"] = to_string(plan.strategy);
  out["process"] = plan.process;
  out["options"] = {{"strategy", to_string(plan.options.strategy)},
                    {"over_decompose", plan.options.over_decompose},
                    {"window_bytes", plan.options.window_bytes},
                    {"threads", plan.options.threads},
                    {"memory_budget", plan.options.memory_budget ? Json(*plan.options.memory_budget) : Json(nullptr)}};
  out["arrays"] = Json::array();
  for (const PlannedArray& array : plan.arrays) out["arrays"].push_back(array_json(array));
  out["slots"] = Json::array();
  for (const Slot& slot : plan.slots) out["slots"].push_back(slot_json(slot));
  out["num_reads"] = plan.reads.size();
  out["reads"] = Json::array();
  for (std::size_t i = 0; i < plan.reads.size() && i < kReads; ++i) out["reads"].push_back(read_json(plan.reads[i]));
  out["totals"] = totals_json(plan.totals);
  out["considered"] = Json::array();
  for (const Considered& one : plan.considered) {
    out["considered"].push_back(Json{{"strategy", to_string(one.strategy)},
                                     {"chosen", one.chosen},
                                     {"totals", totals_json(one.totals)},
                                     {"reason", one.reason}});
  }
  out["notes"] = plan.notes;
  out["fingerprint"] = fingerprint(catalog, plan);
  return out.dump();
}

}  // namespace loadstone
