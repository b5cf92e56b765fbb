// What a pattern of accusations has in common.
#include <algorithm>
#include <set>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/check.h"

namespace loadstone::detail {

namespace {

/// Every device holds what `other` would give it, and some do not hold what they should.
bool laid_out_as(const Check& check, const Sharding& other) {
  std::vector<Shard> shards;
  try {
    std::vector<std::int64_t> positions;
    for (const Holder& holder : check.holders) {
      positions.push_back(other.mesh().position_of_id(holder.shard.device.id));
    }
    shards = other.shards(check.shape, positions);
  } catch (const Error&) {
    return false;  // the other sharding cannot place this shape
  }
  bool any = false;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Holder& holder = check.holders[i];
    if (holder.accused && !holder.found_box) return false;
    const Box& held = holder.found_box ? *holder.found_box : holder.shard.box;
    if (held != shards[i].box) return false;
    any = any || held != holder.shard.box;
  }
  return any;
}

void hint_at_id_order(Check& check) {
  const Mesh& mesh = check.sharding.mesh();
  std::vector<Device> sorted = mesh.devices();
  std::sort(sorted.begin(), sorted.end(), [](const Device& a, const Device& b) { return a.id < b.id; });
  if (sorted == mesh.devices()) return;
  const Sharding other = check.sharding.kind() == Sharding::Kind::row_tiles
                             ? Sharding::row_tiles(sorted, check.sharding.over_decompose())
                             : Sharding(Mesh(mesh.axis_names(), mesh.axis_sizes(), sorted), check.sharding.spec(),
                                        check.sharding.uneven());
  if (laid_out_as(check, other)) {
    check.verdict.hints.push_back(
        "mesh order is not id order: the devices hold what a mesh sorted by id would give them");
  }
}

void hint_at_axis_order(Check& check) {
  const PartitionSpec& spec = check.sharding.spec();
  for (std::size_t e = 0; e < spec.entries().size(); ++e) {
    if (spec.entries()[e].size() < 2) continue;
    std::vector<PartitionSpec::Entry> entries = spec.entries();
    std::reverse(entries[e].begin(), entries[e].end());
    const PartitionSpec turned(entries);
    if (laid_out_as(check, Sharding(check.sharding.mesh(), turned, check.sharding.uneven()))) {
      check.verdict.hints.push_back(
          cat("the data lie as ", to_string(turned), " would place them, the sharding says ", to_string(spec)));
    }
  }
}

/// Replicas disagree between the processes of every load group, never inside a process, and no bytes occur twice: each
/// process took a share of its own.
void hint_at_group_rank(Check& check) {
  std::set<std::int32_t> processes;
  for (const Holder& holder : check.holders) processes.insert(holder.shard.device.process);
  const auto groups = load_groups(check.sharding, check.shape);
  if (groups.size() >= processes.size()) return;
  std::int64_t pairs = 0;
  for (const auto& [box, holders] : check.by_box) {
    for (std::size_t i = 0; i < holders.size(); ++i) {
      for (std::size_t k = i + 1; k < holders.size(); ++k) {
        const Holder& a = check.holders[holders[i]];
        const Holder& b = check.holders[holders[k]];
        if (!a.digest || !b.digest || a.accused || b.accused) return;
        const bool one_process = a.shard.device.process == b.shard.device.process;
        if (check.same(*a.digest, *b.digest) != one_process) return;
        if (!one_process) ++pairs;
      }
    }
  }
  const bool crossed = std::any_of(
      check.verdict.accusations.begin(), check.verdict.accusations.end(),
      [](const Accusation& a) { return a.found_box || a.detail.find("holds the same bytes as") != std::string::npos; });
  if (pairs == 0 || crossed) return;
  check.verdict.hints.push_back(cat("use group rank of ", groups.size(), ", not process index of ",
                                    check.sharding.mesh().process_count(),
                                    ": processes of one load group hold different bytes"));
}

}  // namespace

void add_hints(Check& check) {
  if (check.verdict.accusations.empty() || check.sharding.kind() == Sharding::Kind::boxes) return;
  hint_at_id_order(check);
  if (check.sharding.kind() == Sharding::Kind::named) {
    hint_at_axis_order(check);
    hint_at_group_rank(check);
  }
}

}  // namespace loadstone::detail
