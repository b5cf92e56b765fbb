#pragma once

#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "loadstone/exec/executor.h"
#include "loadstone/plan/plan.h"
#include "tests/fakes/made_arrays.h"

namespace loadstone::fakes {

inline constexpr std::array<DType, 12> kTypes{
    dtypes::kUInt8,      dtypes::kInt16, dtypes::kFloat32,      dtypes::kFloat64, dtypes::kBFloat16, dtypes::kComplex64,
    dtypes::kComplex128, dtypes::kBool,  dtypes::kFloat8E4M3FN, DType{5, 32, 1},  DType{1, 24, 1},   DType{2, 32, 3}};

/// A made-up data set whose shape, files, orders and types follow from the seed.
inline std::unique_ptr<MadeArrays> random_arrays(std::uint32_t seed) {
  auto made = std::make_unique<MadeArrays>(seed);
  std::mt19937& random = made->random;
  const auto count = 1 + random() % 2;
  for (unsigned a = 0; a < count; ++a) {
    const DType dtype = kTypes[random() % kTypes.size()];
    Shape trailing;
    for (auto d = random() % 4; d > 0; --d) trailing.push_back(1 + static_cast<std::int64_t>(random() % 9));
    const bool swaps = dtype.bits % 16 == 0;
    const auto order = [&] { return random() % 2 == 0 ? ElementOrder::c : ElementOrder::f; };
    const auto byte_order = [&] { return swaps && random() % 2 == 0 ? ByteOrder::big : ByteOrder::little; };
    const std::string name = cat("array", a);
    if (random() % 2 == 0) {
      std::vector<MadeFile> files;
      for (auto f = 1 + random() % 5; f > 0; --f) {
        files.push_back({static_cast<std::int64_t>(random() % 12), order(), byte_order()});
      }
      add_stack(*made, name, dtype, trailing, files);
    } else {
      MadeGrid grid;
      grid.chunk.push_back(1 + static_cast<std::int64_t>(random() % 5));
      for (const std::int64_t extent : trailing) {
        grid.chunk.push_back(1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(extent)));
      }
      grid.order = order();
      grid.byte_order = byte_order();
      grid.encoded = random() % 2 == 0;
      grid.absent_of_8 = static_cast<unsigned>(random() % 3);
      std::vector<std::int64_t> rows;
      for (auto f = 1 + random() % 3; f > 0; --f) rows.push_back(static_cast<std::int64_t>(random() % 11));
      add_grid(*made, name, dtype, trailing, rows, grid);
    }
  }
  return made;
}

/// A sharding of arrays of `ndim` dimensions over a few host devices.
inline Sharding random_sharding(std::mt19937& random, int ndim) {
  if (random() % 8 == 0) return Sharding::row_tiles(Mesh::of_cpus({"d"}, {3}).devices(), 1 + random() % 3);
  std::vector<std::string> names{"x", "y"};
  const Dims sizes{1 + static_cast<std::int64_t>(random() % 3), 1 + static_cast<std::int64_t>(random() % 3)};
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(ndim));
  for (const std::string& name : names) {
    if (random() % 4 != 0) entries[random() % entries.size()].push_back(name);
  }
  return Sharding(Mesh::of_cpus(names, sizes), PartitionSpec(entries), Uneven::ceil);
}

inline Plan plan_of(const MadeArrays& made, const std::vector<ArrayRequest>& requests, PlanOptions options = {}) {
  return make_plan(made.catalog, requests, options);
}

inline Sharding rows_over(std::int64_t devices) {
  return Sharding(Mesh::of_cpus({"x"}, {devices}), PartitionSpec({{"x"}}), Uneven::ceil);
}

inline ExecOptions options_of(MadeArrays& made, const ThreadPool& pool) {
  ExecOptions options;
  options.pool = &pool;
  options.sources = &made.sources;
  options.decode = xor_decode;
  return options;
}

}  // namespace loadstone::fakes
