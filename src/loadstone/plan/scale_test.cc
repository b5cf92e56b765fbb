#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "loadstone/plan/plan.h"
#include "loadstone/plan/plan_fixtures.h"

namespace loadstone {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// covers: loading D22, P14
TEST(Scale, PlansOneProcessOf65536DevicesOver100000Files) {
  const std::int64_t devices = 65536;
  const std::vector<std::int64_t> rows(100000, 64);
  const Catalog catalog = testing::stack(rows, {128}, dtypes::kFloat32, 128);
  const Sharding sharding(Mesh::simulated({"data", "model"}, {4096, 16}, testing::ids(devices), 8),
                          parse_spec("data,model"), Uneven::ceil);
  PlanOptions options;
  options.process = 4321;
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = make_plan(catalog, {{0, sharding}}, options);
  std::printf("[          ] make_plan: %.1f ms\n", milliseconds_since(start));
  EXPECT_EQ(plan.slots.size(), 8U);
  EXPECT_LE(plan.reads.size(), 8U);
  EXPECT_LE(plan.notes.size(), 4U);
  // 6,400,000 rows over 4096 tiles: 1563 rows of 64-row files.
  EXPECT_LE(plan.totals.pieces, 27);
  EXPECT_EQ(plan.totals.bytes_needed, 1563 * 64 * 4);
}

// covers: loading D22
TEST(Scale, TouchesOnlyTheChunksOfASmallBox) {
  Catalog catalog;
  ArrayEntry entry;
  entry.name = "w";
  entry.dtype = dtypes::kInt8;
  entry.encodings = {{"zarr", "codec"}};
  entry.tiling = Tiling({10000});
  ChunkGrid grid;
  grid.chunk_shape = {10, 1};
  grid.offsets.assign(10'000'000, 0);
  grid.stored_bytes.assign(10'000'000, 7);
  entry.tiling.add_grid(10000, catalog.files.add("c", {}), std::move(grid), ByteOrder::little, ElementOrder::c, 0);
  entry.shape = {10000, 10000};
  catalog.arrays.push_back(std::move(entry));

  // The device of process 1 holds rows 25:50 of columns 100:200: chunk rows 2, 3 and 4.
  const Sharding sharding(Mesh::simulated({"x", "y"}, {400, 100}, testing::ids(40000), 1), parse_spec("x,y"));
  PlanOptions options;
  options.process = 101;
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = make_plan(catalog, {{0, sharding}}, options);
  std::printf("[          ] make_plan: %.1f ms\n", milliseconds_since(start));
  EXPECT_EQ(to_string(plan.slots.at(0).shard.box), "[25:50, 100:200]");
  EXPECT_EQ(plan.strategy, Strategy::per_process);
  EXPECT_EQ(plan.totals.pieces, 300);
  EXPECT_EQ(plan.totals.bytes_read, 2100);
  std::int64_t touched = 0;
  for (const Read& read : plan.reads) {
    for_each_piece_read(catalog, plan, read, [&](const PieceRead&) { return ++touched > 0; });
  }
  EXPECT_EQ(touched, 300);
  const Considered& global = plan.considered.at(2);
  EXPECT_EQ(global.reason,
            "touches all 10,000,000 pieces, per_process only 300; its bytes were not counted and are at least those of "
            "per_process");
}

TEST(Scale, PlansManyArraysTogether) {
  Catalog catalog = testing::one_file({1024, 64}, dtypes::kBFloat16);
  std::vector<ArrayRequest> requests;
  const Sharding sharding(Mesh::simulated({"x"}, {8}, testing::ids(8), 8), parse_spec("x"));
  for (std::int64_t i = 0; i < 5000; ++i) {
    if (i > 0) catalog.arrays.push_back(catalog.arrays[0]);
    catalog.arrays.back().name = cat("layer.", i);
    requests.push_back({i, sharding});
  }
  const auto start = std::chrono::steady_clock::now();
  const Plan plan = make_plan(catalog, requests, {});
  std::printf("[          ] make_plan: %.1f ms\n", milliseconds_since(start));
  EXPECT_EQ(plan.reads.size(), 5000U);
  EXPECT_EQ(plan.totals.bytes_read, 5000 * 1024 * 64 * 2);
  EXPECT_LE(to_string(plan).size(), 10000U);
}

}  // namespace
}  // namespace loadstone
