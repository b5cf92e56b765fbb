#include "loadstone/exec/placement.h"

#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/exec/blocks.h"

namespace loadstone {

namespace {

/// What is left of each box once `taken` is gone: at most two slabs a dimension.
std::vector<Box> without(const std::vector<Box>& boxes, const Box& taken) {
  std::vector<Box> out;
  for (Box rest : boxes) {
    if (!overlaps(rest, taken)) {
      out.push_back(std::move(rest));
      continue;
    }
    for (int d = 0; d < rest.ndim(); ++d) {
      Box below = rest;
      below.end[d] = taken.begin[d];
      if (below.begin[d] < below.end[d]) out.push_back(std::move(below));
      Box above = rest;
      above.begin[d] = taken.end[d];
      if (above.begin[d] < above.end[d]) out.push_back(std::move(above));
      rest.begin[d] = std::max(rest.begin[d], taken.begin[d]);
      rest.end[d] = std::min(rest.end[d], taken.end[d]);
    }
  }
  return out;
}

}  // namespace

View assemble(const Placement& placement, std::int32_t array) {
  if (array < 0 || static_cast<std::size_t>(array) >= placement.arrays.size()) {
    throw usage_error(cat("array ", array, " is not in the placement, which has ", placement.arrays.size()));
  }
  const PlacedArray& placed = placement.arrays[static_cast<std::size_t>(array)];
  const Box whole = Box::whole(placed.shape);
  std::vector<Box> missing;
  if (!whole.empty()) missing.push_back(whole);

  std::vector<const PlacedShard*> shards;
  for (const PlacedShard& shard : placement.shards) {
    if (shard.array == array && !shard.shard.box.empty()) shards.push_back(&shard);
  }
  std::stable_sort(shards.begin(), shards.end(), [](const PlacedShard* a, const PlacedShard* b) {
    return a->shard.replica_id < b->shard.replica_id;
  });
  std::vector<const PlacedShard*> needed;
  for (const PlacedShard* shard : shards) {
    if (std::none_of(missing.begin(), missing.end(), [&](const Box& box) { return overlaps(box, shard->shard.box); })) {
      continue;
    }
    missing = without(missing, shard->shard.box);
    needed.push_back(shard);
  }
  if (!missing.empty()) {
    throw usage_error(cat("array '", printable(placed.name), "' of shape ", to_string(placed.shape),
                          ": the shards of process ", placement.process,
                          " do not cover it: ", to_string(missing.front(), placed.shape), " is missing"));
  }
  View out = View::allocate(placed.shape, placed.dtype);
  const Block to = dense_block(out.data(), whole, placed.dtype);
  for (const PlacedShard* shard : needed) {
    if (shard->data.place().kind == PlaceKind::cuda && shard->data.layout().contiguous()) {
      const std::shared_ptr<Memory> host = Memory::allocate_host(shard->data.nbytes());
      cuda::copy_to_host(host->base(), shard->data.data(), shard->data.nbytes(), shard->data.place().ordinal);
      copy_part(to, dense_block(host->base(), shard->shard.box, placed.dtype), shard->shard.box, placed.dtype);
      continue;
    }
    if (!shard->data.place().host_accessible() || !shard->data.layout().contiguous()) {
      throw usage_error(cat("array '", printable(placed.name), "': the shard on ", to_string(shard->shard.device),
                            " is not C-order host memory"));
    }
    copy_part(to, dense_block(shard->data.data(), shard->shard.box, placed.dtype), shard->shard.box, placed.dtype);
  }
  return out;
}

}  // namespace loadstone
