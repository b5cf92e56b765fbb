#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/process_view.h"
#include "loadstone/shard/sharding.h"

/// Short notation for the tests of this module: meshes and specs as on the command line, maps as lines of text.
namespace loadstone::test {

inline std::vector<std::int64_t> iota(std::int64_t count) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

inline Mesh mesh_of(std::string_view axes, std::int64_t devices_per_process = 2, std::vector<std::int64_t> ids = {}) {
  auto [names, sizes] = parse_mesh(axes);
  if (ids.empty()) ids = iota(num_elems(sizes));
  return Mesh::simulated(std::move(names), std::move(sizes), std::move(ids), devices_per_process);
}

inline Sharding sharding_of(std::string_view axes, std::string_view spec, std::int64_t devices_per_process = 2,
                            std::vector<std::int64_t> ids = {}, Uneven uneven = Uneven::error) {
  return Sharding(mesh_of(axes, devices_per_process, std::move(ids)), parse_spec(spec), uneven);
}

inline std::string compact(std::string text) {
  std::erase(text, ' ');
  return text;
}

/// "d0 [:,0:16] r0" for every device in mesh order.
inline std::vector<std::string> lines(const std::vector<Shard>& shards, const Shape& shape) {
  std::vector<std::string> out;
  for (const Shard& shard : shards) {
    out.push_back(cat("d", shard.device.id, " ", compact(to_string(shard.box, shape)), " r", shard.replica_id));
  }
  return out;
}
inline std::vector<std::string> map_of(const Sharding& sharding, const Shape& shape) {
  return lines(sharding.all_shards(shape), shape);
}

/// Replica ids in mesh order.
inline std::vector<std::int64_t> replicas_of(const Sharding& sharding, const Shape& shape) {
  std::vector<std::int64_t> out;
  for (const Shard& shard : sharding.all_shards(shape)) out.push_back(shard.replica_id);
  return out;
}

/// The union of the boxes of a process: "[:,0:16] [:,32:48]".
inline std::string union_of(const Sharding& sharding, const Shape& shape, std::int32_t process) {
  std::vector<Box> boxes;
  for (const HeldBox& held : unique_local_boxes(sharding, shape, process)) boxes.push_back(held.box);
  std::vector<std::string> parts;
  for (const Box& box : merge_boxes(boxes)) parts.push_back(compact(to_string(box, shape)));
  return join(parts, " ");
}
inline std::vector<std::string> unions_of(const Sharding& sharding, const Shape& shape) {
  std::vector<std::string> out;
  for (std::int32_t p = 0; p < sharding.mesh().process_count(); ++p) out.push_back(union_of(sharding, shape, p));
  return out;
}

/// "0/4" for every process, "-" where it has no devices, "x" for a dimension that is not uniform.
inline std::string roles_of(const Sharding& sharding, const Shape& shape, int dim) {
  std::vector<std::string> out;
  for (std::int32_t p = 0; p < sharding.mesh().process_count(); ++p) {
    try {
      const auto role = process_index_and_count(sharding, shape, dim, p);
      out.push_back(role ? cat(role->first, "/", role->second) : "-");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_TRUE(error.message().starts_with(cat("NonUniformShardingError: dimension ", dim, " "))) << error.message();
      out.emplace_back("x");
    }
  }
  return join(out, " ");
}

/// "(4,None)": what the local shape implies on process p.
inline std::string inferred(const Sharding& sharding, const Shape& local, std::int32_t process) {
  std::vector<std::string> parts;
  for (const auto& extent : local_to_global_shape(sharding, local, process)) {
    parts.push_back(extent ? std::to_string(*extent) : "None");
  }
  return cat("(", join(parts, ","), ")");
}

using Groups = std::vector<std::vector<std::int32_t>>;

/// Expects an Error{usage} whose message has every one of `words`.
template <typename Action>
void expect_usage_error(Action action, const std::vector<std::string>& words) {
  try {
    action();
    ADD_FAILURE() << "expected an Error with: " << join(words, " | ");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.message();
    for (const std::string& word : words) {
      EXPECT_NE(error.message().find(word), std::string::npos) << "no '" << word << "' in: " << error.message();
    }
  }
}

}  // namespace loadstone::test
