#include "loadstone/shard/process_view.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/tile_map.h"

namespace loadstone {

namespace {

using Interval = std::pair<std::int64_t, std::int64_t>;
using IntervalSet = std::vector<Interval>;  // sorted, distinct

std::vector<HeldBox> held_boxes(const Sharding& sharding, const Shape& shape,
                                const std::vector<std::int64_t>& positions) {
  std::vector<Shard> shards = sharding.shards(shape, positions);
  const std::vector<std::int64_t> tiles = sharding.tiles(shape.size(), positions);
  std::vector<HeldBox> out;
  std::unordered_map<std::int64_t, std::size_t> slots;
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const auto [at, fresh] = slots.try_emplace(tiles[k], out.size());
    if (fresh) out.push_back({std::move(shards[k].box), {}});
    out[at->second].positions.push_back(positions[k]);
  }
  return out;
}

void sort_distinct(IntervalSet& set) {
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
}

// Where tiles divide a dimension its tile numbers stand for the intervals, so that a dimension of size 0 keeps its
// roles; elsewhere the intervals count, and empty ones hold nothing.
Shape role_shape(const Sharding& sharding, Shape shape) {
  if (sharding.kind() != Sharding::Kind::named) return shape;
  const Dims tiles = sharding.tiles_per_dim(shape.size());
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] % tiles[d] == 0) shape[d] = tiles[d];
  }
  return shape;
}

std::map<std::int32_t, IntervalSet> interval_sets(const std::vector<Shard>& shards, int dim) {
  std::map<std::int32_t, IntervalSet> sets;
  for (const Shard& shard : shards) {
    IntervalSet& set = sets[shard.device.process];
    const Interval interval{shard.box.begin[dim], shard.box.end[dim]};
    if (interval.first < interval.second) set.push_back(interval);
  }
  for (auto& [process, set] : sets) sort_distinct(set);
  return sets;
}

std::string describe(std::int32_t process, const IntervalSet& set) {
  std::vector<std::string> parts;
  for (const auto& [begin, end] : set) parts.push_back(cat(begin, ":", end));
  return cat("process ", process, " holds ", set.empty() ? "nothing" : join_first(parts, 5));
}

struct Roles {
  std::map<IntervalSet, std::int32_t> sets;  // the different sets in order of first offset, with one holder each
  std::string fault;                         // why the dimension is not uniform; "" when it is
};

Roles roles_of(const std::map<std::int32_t, IntervalSet>& by_process) {
  Roles out;
  for (const auto& [process, set] : by_process) out.sets.try_emplace(set, process);
  const auto& [first_set, first_process] = *out.sets.begin();
  std::vector<std::pair<Interval, const IntervalSet*>> all;
  for (const auto& entry : out.sets) {
    if (entry.first.size() != first_set.size()) {
      out.fault = cat(describe(first_process, first_set), " and ", describe(entry.second, entry.first),
                      ": sets of different size");
      return out;
    }
    for (const Interval& interval : entry.first) all.emplace_back(interval, &entry.first);
  }
  std::sort(all.begin(), all.end());
  for (std::size_t k = 1; k < all.size(); ++k) {
    if (all[k].first.first >= all[k - 1].first.second) continue;
    const IntervalSet& a = *all[k - 1].second;
    const IntervalSet& b = *all[k].second;
    out.fault = &a == &b ? cat(describe(out.sets[a], a), ": they overlap")
                         : cat(describe(out.sets[a], a), " and ", describe(out.sets[b], b), ": they overlap in part");
    return out;
  }
  return out;
}

void check_dim(int dim, int ndim) {
  if (dim < 0 || dim >= ndim) {
    throw usage_error(cat("dimension ", dim, " does not exist in an array of ndim ", ndim));
  }
}

}  // namespace

std::vector<HeldBox> unique_local_boxes(const Sharding& sharding, const Shape& shape, std::int32_t process) {
  return held_boxes(sharding, shape, sharding.mesh().positions_of(process));
}

std::vector<HeldBox> unique_boxes(const Sharding& sharding, const Shape& shape) {
  return held_boxes(sharding, shape, detail::all_positions(sharding));
}

Shape num_addressable(const Sharding& sharding, const Shape& shape, std::int32_t process) {
  const std::vector<Shard> shards = sharding.local_shards(shape, process);
  Shape out = Dims::filled(shape.size(), 0);
  for (int d = 0; d < shape.size(); ++d) {
    for (const auto& [owner, set] : interval_sets(shards, d)) {
      for (const auto& [begin, end] : set) out[d] += end - begin;
    }
  }
  return out;
}

std::optional<std::pair<std::int64_t, std::int64_t>> process_index_and_count(const Sharding& sharding,
                                                                             const Shape& shape, int dim,
                                                                             std::int32_t process) {
  sharding.check(shape);
  check_dim(dim, shape.size());
  const auto by_process = interval_sets(sharding.all_shards(role_shape(sharding, shape)), dim);
  const auto mine = by_process.find(process);
  if (mine == by_process.end()) return std::nullopt;
  const Roles roles = roles_of(by_process);
  if (!roles.fault.empty()) {
    throw usage_error(cat("NonUniformShardingError: dimension ", dim, " of the array of shape ", to_string(shape),
                          " is not uniform: ", roles.fault));
  }
  const auto index = std::distance(roles.sets.begin(), roles.sets.find(mine->second));
  return std::pair{static_cast<std::int64_t>(index), static_cast<std::int64_t>(roles.sets.size())};
}

std::vector<std::optional<std::int64_t>> local_to_global_shape(const Sharding& sharding, const Shape& local,
                                                               std::int32_t process) {
  if (sharding.kind() != Sharding::Kind::named) {
    throw usage_error("a global shape can be inferred only from a sharding by mesh and spec: give it explicitly");
  }
  const Dims tiles = sharding.tiles_per_dim(local.size());
  const std::vector<Shard> shards = sharding.all_shards(tiles);
  std::vector<std::optional<std::int64_t>> out;
  for (int d = 0; d < local.size(); ++d) {
    out.emplace_back();
    if (tiles[d] > 1 && sharding.uneven() == Uneven::ceil) continue;
    const auto by_process = interval_sets(shards, d);
    if (!by_process.contains(process)) continue;
    const Roles roles = roles_of(by_process);
    if (!roles.fault.empty()) continue;
    const auto count = static_cast<std::int64_t>(roles.sets.size());
    out.back() = checked_mul(local[d], count);
    if (!out.back() || local[d] < 0) {
      throw usage_error(cat("dimension ", d, ": local size ", local[d], " times ", count, " is not a size"));
    }
  }
  return out;
}

std::vector<std::vector<std::int32_t>> load_groups(const Sharding& sharding, const Shape& shape) {
  std::map<std::int32_t, std::vector<Box>> by_process;
  for (Shard& shard : sharding.all_shards(shape)) {
    if (!shard.box.empty()) by_process[shard.device.process].push_back(std::move(shard.box));
  }
  std::map<std::vector<Box>, std::vector<std::int32_t>> groups;
  for (auto& [process, boxes] : by_process) {
    std::sort(boxes.begin(), boxes.end());
    boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
    groups[std::move(boxes)].push_back(process);
  }
  std::vector<std::vector<std::int32_t>> out;
  for (auto& [boxes, processes] : groups) out.push_back(std::move(processes));
  return out;
}

bool process_has_all(const Sharding& sharding, const Shape& shape, std::int32_t process) {
  std::vector<Box> boxes;
  for (Shard& shard : sharding.local_shards(shape, process)) boxes.push_back(std::move(shard.box));
  std::int64_t held = 0;
  for (const Box& box : merge_boxes(std::move(boxes))) held += box.num_elems();
  return held == num_elems(shape);
}

}  // namespace loadstone
