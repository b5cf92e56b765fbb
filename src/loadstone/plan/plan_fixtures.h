#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

/// What the tests of this module plan with.
namespace loadstone::testing {

/// A catalog of one array 'w' in one file with its data at offset 0.
inline Catalog one_file(const Shape& shape, DType dtype, ElementOrder order = ElementOrder::c) {
  Catalog out;
  ArrayEntry entry;
  entry.name = "w";
  entry.format = "raw";
  entry.dtype = dtype;
  entry.shape = shape;
  Shape trailing;
  for (int d = 1; d < shape.size(); ++d) trailing.push_back(shape[d]);
  entry.tiling = Tiling(trailing);
  const std::int32_t file = out.files.add("w.raw", {dtype.nbytes(num_elems(shape)), 0});
  entry.tiling.add_plain(shape.empty() ? 1 : shape[0], file, 0, ByteOrder::little, order);
  if (shape.empty()) entry.tiling.set_scalar();
  out.arrays.push_back(std::move(entry));
  return out;
}

/// A catalog of one array 'w' stacked of files with these rows, each with a header of `offset` bytes.
inline Catalog stack(const std::vector<std::int64_t>& rows, const Shape& trailing, DType dtype, std::int64_t offset = 0,
                     ElementOrder order = ElementOrder::c) {
  Catalog out;
  ArrayEntry entry;
  entry.name = "w";
  entry.format = "npy";
  entry.dtype = dtype;
  entry.tiling = Tiling(trailing);
  const std::int64_t row_bytes = dtype.nbytes(num_elems(trailing));
  for (const std::int64_t r : rows) {
    const std::int32_t file = out.files.add(cat("shard_", out.files.size(), ".npy"), {offset + r * row_bytes, 0});
    entry.tiling.add_plain(r, file, offset, ByteOrder::little, order);
  }
  entry.shape = entry.tiling.shape();
  out.arrays.push_back(std::move(entry));
  return out;
}

/// Numbers 0 … n-1.
inline std::vector<std::int64_t> ids(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

/// A golden example of requirements/sharding.md section 10.
struct Example {
  std::string name;
  Shape shape;
  DType dtype;
  std::string mesh;
  std::string spec;
  std::vector<std::int64_t> device_ids;
  std::int64_t devices_per_process = 2;
  std::int32_t processes = 4;

  Sharding sharding() const {
    auto [names, sizes] = parse_mesh(mesh);
    return {Mesh::simulated(names, sizes, device_ids, devices_per_process), parse_spec(spec)};
  }
  Catalog catalog() const { return one_file(shape, dtype); }
  Plan plan(const PlanOptions& options) const { return make_plan(catalog(), {{0, sharding()}}, options); }
};

inline std::vector<Example> golden_examples() {
  using dtypes::kBFloat16;
  using dtypes::kFloat32;
  const std::vector<std::int64_t> g9 = ids(8);
  const std::vector<std::int64_t> g10{0, 4, 2, 6, 1, 5, 3, 7};
  const Shape wide{64, 128};
  return {{"G1", wide, kFloat32, "x=8", "-,x", ids(8)},
          {"G2", wide, kFloat32, "x=8", "-,x", {6, 2, 3, 4, 0, 7, 5, 1}},
          {"G3", wide, kFloat32, "x=2,y=4", "x,y", ids(8)},
          {"G4", wide, kFloat32, "x=4,y=2", "x,y", ids(8)},
          {"G5", wide, kFloat32, "x=4,y=2", "y,x", ids(8)},
          {"G6", wide, kFloat32, "x=4,y=2", "x+y", ids(8)},
          {"G7", wide, kFloat32, "x=4,y=2", "y+x", ids(8)},
          {"G8", wide, kFloat32, "x=8", "", ids(8)},
          {"G9", wide, kFloat32, "rep=4,row=2", "row", g9},
          {"G10", wide, kFloat32, "rep=4,row=2", "row", g10},
          {"G11", {64, 3}, kFloat32, "batch=8", "batch", ids(8)},
          {"G12", {32, 3}, kFloat32, "replicas=4,model=2", "replicas", ids(8), 4, 2},
          {"G13", {64, 3}, kFloat32, "replicas=4,model=2", "replicas", g10},
          {"G14", {8, 4, 6}, kBFloat16, "a=2,b=2,c=2", "c+a,-,b", ids(8)},
          {"G15", {8, 4, 2, 2}, kFloat32, "a=2,b=2,c=2,d=2", "-,d+b,c", ids(16), 4, 4},
          {"G16", {8, 2, 4}, kFloat32, "x=1,y=2,z=4", "x,-,z", ids(8)}};
}
inline Example golden(const std::string& name) {
  for (Example& example : golden_examples()) {
    if (example.name == name) return example;
  }
  return {};
}

/// No gap is ever worth reading.
/// The default model, but for merging however few the reads are.
inline CostModel merging_cost() {
  return {.exact_reads = 0};
}

inline CostModel exact_cost() {
  return {.request_seconds = 0, .bytes_per_second = 1e9, .max_over_read = 1};
}

}  // namespace loadstone::testing
