#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/shard/sharding.h"

namespace loadstone {

/// A box and the devices that hold it.
struct HeldBox {
  Box box;
  std::vector<std::int64_t> positions;  ///< mesh positions, ascending
};

/// Distinct boxes of one process in order of first holder, each with the local devices that hold it. Empty boxes of
/// different tiles stay apart (they are not replicas of each other).
std::vector<HeldBox> unique_local_boxes(const Sharding& sharding, const Shape& shape, std::int32_t process);
/// The same over the whole mesh.
std::vector<HeldBox> unique_boxes(const Sharding& sharding, const Shape& shape);

/// Sum of the lengths of the process's distinct intervals on each dimension (sharding section 5).
Shape num_addressable(const Sharding& sharding, const Shape& shape, std::int32_t process);

/// (i, n) of sharding section 5 on one dimension: n different interval sets over the processes, i = rank of this
/// process's set by first offset. nullopt for a process without devices. Error{usage} "NonUniformShardingError: …"
/// naming the dimension when sets differ in size or overlap in part.
std::optional<std::pair<std::int64_t, std::int64_t>> process_index_and_count(const Sharding& sharding,
                                                                             const Shape& shape, int dim,
                                                                             std::int32_t process);

/// The global shape that local data of `local` implies: local[d]·n per dimension; nullopt where non-uniform (or
/// uneven). ndim from local. The sharding must be named.
std::vector<std::optional<std::int64_t>> local_to_global_shape(const Sharding& sharding, const Shape& local,
                                                               std::int32_t process);

/// Groups of processes whose sets of non-empty distinct boxes are equal, in lexicographic order of their sorted box
/// lists; processes that hold nothing are in no group. Example: G10 gives {0,1}, {2,3}.
std::vector<std::vector<std::int32_t>> load_groups(const Sharding& sharding, const Shape& shape);

/// True when the distinct boxes of one process cover the array.
bool process_has_all(const Sharding& sharding, const Shape& shape, std::int32_t process);

/// Disjoint boxes with the same union as `boxes` (which may overlap or repeat), merged along inner dimensions first so
/// that runs on disk grow. Example: columns 0:16 and 16:32 of 64 rows become one box 0:32.
std::vector<Box> merge_boxes(std::vector<Box> boxes);

}  // namespace loadstone
