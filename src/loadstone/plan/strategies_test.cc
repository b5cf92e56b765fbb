#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "loadstone/plan/plan.h"
#include "loadstone/plan/plan_fixtures.h"

namespace loadstone {
namespace {

using testing::exact_cost;

std::int64_t upto(std::mt19937& random, std::int64_t n) {
  return static_cast<std::int64_t>(random() % static_cast<unsigned>(n + 1));
}

/// A part of `rows` rows cut into chunks, encoded or plain, some absent.
ChunkGrid random_grid(std::mt19937& random, const Shape& part) {
  ChunkGrid grid;
  std::int64_t chunks = 1;
  for (const std::int64_t extent : part) {
    grid.chunk_shape.push_back(1 + upto(random, extent));
    chunks *= (extent + grid.chunk_shape.back() - 1) / grid.chunk_shape.back();
  }
  for (std::int64_t k = 0; k < chunks; ++k) {
    const bool absent = upto(random, 7) == 0;
    grid.offsets.push_back(absent ? -1 : 1000 * k);
    grid.stored_bytes.push_back(absent ? 0 : 10 + k);
  }
  return grid;
}

Catalog random_catalog(std::mt19937& random) {
  Catalog catalog;
  ArrayEntry entry;
  entry.name = "w";
  entry.dtype = dtypes::kInt16;
  Shape trailing;
  for (std::int64_t d = upto(random, 2); d > 0; --d) trailing.push_back(1 + upto(random, 7));
  entry.tiling = Tiling(trailing);
  entry.encodings = {{"zarr", "codec"}};
  for (std::int64_t parts = 1 + upto(random, 3); parts > 0; --parts) {
    const std::int64_t rows = upto(random, 6);
    const std::int32_t file = catalog.files.add("f", {});
    const auto order = upto(random, 1) == 0 ? ElementOrder::c : ElementOrder::f;
    Shape part = trailing;
    part = {};
    part.push_back(rows);
    for (const std::int64_t extent : trailing) part.push_back(extent);
    switch (upto(random, 3)) {
      case 0: entry.tiling.add_grid(rows, file, random_grid(random, part), ByteOrder::little, order, 0); break;
      case 1: entry.tiling.add_grid(rows, file, random_grid(random, part), ByteOrder::little, order); break;
      case 2: entry.tiling.add_plain(rows, file, 0, ByteOrder::little, order, 0, 17); break;
      default: entry.tiling.add_plain(rows, file, upto(random, 9), ByteOrder::little, order); break;
    }
  }
  entry.shape = entry.tiling.shape();
  catalog.arrays.push_back(std::move(entry));
  return catalog;
}

Sharding random_sharding(std::mt19937& random, const Shape& shape) {
  const std::vector<std::string> axes{"a", "b", "c"};
  const Dims sizes{1 + upto(random, 2), 1 + upto(random, 2), 1 + upto(random, 1)};
  std::vector<std::int64_t> device_ids = testing::ids(sizes[0] * sizes[1] * sizes[2]);
  std::shuffle(device_ids.begin(), device_ids.end(), random);
  const Mesh mesh = Mesh::simulated(axes, sizes, device_ids, 1 + upto(random, 4));
  if (upto(random, 3) == 0) return Sharding::row_tiles(mesh.devices(), 1 + upto(random, 2));
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(shape.size()));
  for (const std::string& axis : axes) {
    const std::int64_t d = upto(random, shape.size());
    if (d < shape.size()) entries[static_cast<std::size_t>(d)].push_back(axis);
  }
  return {mesh, PartitionSpec(entries), Uneven::ceil};
}

std::vector<Dims> indices(const Box& box) {
  std::vector<Dims> out;
  if (box.empty()) return out;
  Dims index = box.begin;
  for (std::int64_t k = box.num_elems(); k > 0; --k) {
    out.push_back(index);
    for (int d = box.ndim() - 1; d >= 0; --d) {
      if (++index[d] < box.end[d]) break;
      index[d] = box.begin[d];
    }
  }
  return out;
}

struct Case {
  Catalog catalog;
  Sharding sharding;
  Plan plan;
};

void check_slots_are_filled_once(const Case& c) {
  std::vector<std::multiset<Dims>> filled(c.plan.slots.size());
  for (const Read& read : c.plan.reads) {
    EXPECT_TRUE(std::is_sorted(read.targets.begin(), read.targets.end(),
                               [](const Target& a, const Target& b) { return a.slot < b.slot; }));
    for (const Target& target : read.targets) {
      EXPECT_TRUE(read.box.contains(target.box));
      for (const Dims& index : indices(target.box)) filled[static_cast<std::size_t>(target.slot)].insert(index);
    }
  }
  for (std::size_t s = 0; s < filled.size(); ++s) {
    const std::vector<Dims> expected = indices(c.plan.slots[s].shard.box);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), filled[s].begin(), filled[s].end())) << "slot " << s;
  }
}

void check_pieces_cover_the_reads(const Case& c) {
  PlanTotals found;
  std::multiset<std::int64_t> encoded;
  for (const Read& read : c.plan.reads) {
    std::multiset<Dims> covered;
    for_each_piece_read(c.catalog, c.plan, read, [&](const PieceRead& part) {
      EXPECT_TRUE(part.piece.box.contains(part.box));
      for (const Dims& index : indices(part.box)) covered.insert(index);
      ++found.pieces;
      if (part.piece.absent) {
        ++found.absent_pieces;
      } else if (part.piece.encoding >= 0) {
        encoded.insert(part.piece.number);
        found.bytes_read += part.piece.stored_bytes;
        ++found.requests;
      } else {
        const ReadPattern p = read_pattern(part.piece, part.box, dtypes::kInt16, c.plan.options.cost);
        EXPECT_EQ(p.bytes_read(), 2 * part.box.num_elems());
        found.bytes_read += p.bytes_read();
        found.requests += p.num_reads();
      }
      return true;
    });
    const std::vector<Dims> expected = indices(read.box);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), covered.begin(), covered.end()));
  }
  EXPECT_EQ(c.plan.totals.bytes_read, found.bytes_read);
  EXPECT_EQ(c.plan.totals.requests, found.requests);
  EXPECT_EQ(c.plan.totals.pieces, found.pieces);
  EXPECT_EQ(c.plan.totals.absent_pieces, found.absent_pieces);
  if (c.plan.strategy == Strategy::per_process) {
    EXPECT_EQ(std::set<std::int64_t>(encoded.begin(), encoded.end()).size(), encoded.size()) << "decoded twice";
    EXPECT_EQ(c.plan.totals.duplicate_bytes, 0);
  }
}

void check_bytes_needed(const Case& c) {
  std::set<Dims> needed;
  std::int64_t placed = 0;
  for (const Slot& slot : c.plan.slots) {
    for (const Dims& index : indices(slot.shard.box)) needed.insert(index);
    placed += slot.nbytes;
  }
  EXPECT_EQ(c.plan.totals.bytes_needed, 2 * static_cast<std::int64_t>(needed.size()));
  EXPECT_EQ(c.plan.totals.bytes_placed, placed);
}

// covers: loading R1, R16, sharding R9
TEST(Strategies, FillEverySlotOnceFromAnyTiling) {
  std::mt19937 random(11);
  for (int round = 0; round < 600; ++round) {
    const Catalog catalog = random_catalog(random);
    const Shape& shape = catalog.arrays[0].shape;
    const Sharding sharding = random_sharding(random, shape);
    PlanOptions options;
    options.cost = exact_cost();
    options.process = static_cast<std::int32_t>(upto(random, 3));
    for (const Strategy strategy :
         {Strategy::global, Strategy::per_device, Strategy::per_process, Strategy::automatic}) {
      SCOPED_TRACE(cat("round ", round, ", ", to_string(strategy), ", shape ", to_string(shape)));
      options.strategy = strategy;
      const Case c{catalog, sharding, make_plan(catalog, {{0, sharding}}, options)};
      check_slots_are_filled_once(c);
      check_pieces_cover_the_reads(c);
      check_bytes_needed(c);
    }
    if (::testing::Test::HasFailure()) return;
  }
}

/// 8 x 8 elements in encoded chunks of 3 x 3, each of 100 stored bytes.
Catalog chunked() {
  Catalog catalog;
  ArrayEntry entry;
  entry.name = "w";
  entry.dtype = dtypes::kInt8;
  entry.encodings = {{"zarr", "codec"}};
  entry.tiling = Tiling({8});
  ChunkGrid grid;
  grid.chunk_shape = {3, 3};
  for (std::int64_t k = 0; k < 9; ++k) {
    grid.offsets.push_back(100 * k);
    grid.stored_bytes.push_back(100);
  }
  entry.tiling.add_grid(8, catalog.files.add("c", {}), std::move(grid), ByteOrder::little, ElementOrder::c, 0);
  entry.shape = {8, 8};
  catalog.arrays.push_back(std::move(entry));
  return catalog;
}

// covers: loading R16
TEST(Strategies, ReadAnEncodedPieceOncePerProcessAndChargeItWhole) {
  const Catalog catalog = chunked();
  const Sharding quarters(Mesh::of_cpus({"x", "y"}, {2, 2}), parse_spec("x,y"));
  const auto totals = [&](Strategy strategy) {
    PlanOptions options;
    options.strategy = strategy;
    return make_plan(catalog, {{0, quarters}}, options).totals;
  };
  EXPECT_EQ(totals(Strategy::per_process).bytes_read, 900);
  EXPECT_EQ(totals(Strategy::per_process).over_read_bytes, 0);
  EXPECT_EQ(totals(Strategy::per_device).bytes_read, 1600) << "four devices touch four chunks each";
  EXPECT_EQ(totals(Strategy::per_process).staging_bytes, 100 + 9) << "stored and decoded";

  // One device of two needs rows 0:4: chunk rows 0 and 1, of the second a third.
  const Sharding halves(Mesh::simulated({"x"}, {2}, {0, 1}, 1), parse_spec("x"));
  PlanOptions options;
  options.strategy = Strategy::per_process;
  const Plan plan = make_plan(catalog, {{0, halves}}, options);
  EXPECT_EQ(plan.totals.bytes_read, 600);
  EXPECT_EQ(plan.totals.over_read_bytes, 3 * (100 - 33));
  EXPECT_EQ(plan.totals.bytes_needed, 32);
  ASSERT_EQ(plan.reads.size(), 1U);
  EXPECT_EQ(to_string(plan.reads[0].box), "[0:6, 0:8]") << "grown to the chunks";
  EXPECT_EQ(to_string(plan.reads[0].targets[0].box), "[0:4, 0:8]");
}

TEST(Strategies, ChooseOverAllArraysTogether) {
  Catalog catalog = testing::one_file({8, 8}, dtypes::kInt8);
  const Catalog other = testing::one_file({16, 4}, dtypes::kInt8);
  catalog.files.add("v.raw", {64, 0});
  catalog.arrays.push_back(other.arrays[0]);
  catalog.arrays[1].name = "v";
  const Mesh mesh = Mesh::simulated({"x"}, {4}, testing::ids(4), 2);
  PlanOptions options;
  options.cost = exact_cost();
  const Plan plan = make_plan(catalog, {{1, {mesh, parse_spec("x")}}, {0, {mesh, parse_spec("")}}}, options);
  EXPECT_EQ(plan.strategy, Strategy::per_process);
  ASSERT_EQ(plan.slots.size(), 4U);
  EXPECT_EQ(plan.arrays[0].name, "v");
  EXPECT_EQ(plan.arrays[0].catalog_index, 1);
  EXPECT_EQ(plan.slots[2].array, 1);
  EXPECT_EQ(plan.totals.bytes_needed, 32 + 64);
  EXPECT_EQ(plan.totals.bytes_placed, 32 + 128);
  EXPECT_EQ(plan.notes.at(0).substr(0, 4), "'w':") << plan.notes.at(0);
}

}  // namespace
}  // namespace loadstone
