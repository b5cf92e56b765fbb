#include "loadstone/exec/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "tests/fakes/made_arrays.h"

namespace loadstone {
namespace {

using fakes::add_grid;
using fakes::add_stack;
using fakes::MadeArrays;
using fakes::MadeFile;
using fakes::MadeGrid;

std::vector<Window> all_windows(const Catalog& catalog, const Plan& plan) {
  WindowQueue queue(catalog, plan);
  std::vector<Window> out;
  while (auto window = queue.next()) out.push_back(std::move(*window));
  return out;
}

std::int64_t elems_of(const std::vector<Window>& windows) {
  std::int64_t sum = 0;
  for (const Window& window : windows) sum += window.box.num_elems();
  return sum;
}

Plan whole_on_one(const Catalog& catalog, PlanOptions options = {}) {
  return make_plan(catalog, {{0, Sharding::single()}}, options);
}

TEST(WindowQueue, CutsPlainPiecesSlowestFirstAndStaysWithinTheLimit) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {10}, {{7}, {0}, {5}});
  PlanOptions options;
  options.window_bytes = 100;  // two rows of 40 bytes
  const auto windows = all_windows(made.catalog, whole_on_one(made.catalog, options));
  ASSERT_EQ(windows.size(), 4U + 3U);
  EXPECT_EQ(windows[0].box, (Box{{0, 0}, {2, 10}}));
  EXPECT_EQ(windows[3].box, (Box{{6, 0}, {7, 10}}));
  EXPECT_EQ(windows[4].box, (Box{{7, 0}, {9, 10}}));
  EXPECT_EQ(windows[4].piece.part, 2) << "the empty part has no window";
  for (const Window& window : windows) EXPECT_EQ(window.pattern.num_reads(), 1);
}

TEST(WindowQueue, GoesInAlongFasterDimensionsWhenOneRowIsTooLarge) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {3, 50}, {{2}});
  PlanOptions options;
  options.window_bytes = 80;  // 20 elements of a run of 50
  const auto windows = all_windows(made.catalog, whole_on_one(made.catalog, options));
  ASSERT_EQ(windows.size(), 2U * 3U * 3U);
  EXPECT_EQ(windows[1].box, (Box{{0, 0, 20}, {1, 1, 40}}));
  EXPECT_EQ(windows[2].box, (Box{{0, 0, 40}, {1, 1, 50}}));
  EXPECT_EQ(windows[3].box, (Box{{0, 1, 0}, {1, 2, 20}}));
}

TEST(WindowQueue, IsInFileOrderDisjointAndCoversThePlan) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    MadeArrays made(static_cast<std::uint32_t>(round) + 1);
    const Shape trailing{1 + static_cast<std::int64_t>(random() % 9), 1 + static_cast<std::int64_t>(random() % 9)};
    if (round % 2 == 0) {
      add_stack(made, "w", dtypes::kInt16, trailing, {{7}, {3, ElementOrder::f}, {6}});
    } else {
      MadeGrid grid;
      grid.chunk = {1 + static_cast<std::int64_t>(random() % 4), 2, 3};
      grid.encoded = random() % 2 == 0;
      grid.absent_of_8 = 1;
      add_grid(made, "w", dtypes::kInt16, trailing, {9, 4}, grid);
    }
    PlanOptions options;
    options.window_bytes = 1 + static_cast<std::int64_t>(random() % 120);
    options.strategy = Strategy::per_process;
    const Plan plan = whole_on_one(made.catalog, options);
    const auto windows = all_windows(made.catalog, plan);
    std::int64_t wanted = 0;
    for (const Read& read : plan.reads) wanted += read.box.num_elems();
    EXPECT_EQ(elems_of(windows), wanted);
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const Window& window = windows[i];
      EXPECT_TRUE(window.piece.box.contains(window.box));
      EXPECT_FALSE(window.box.empty());
      if (window.piece.encoding >= 0 && !window.piece.absent) {
        EXPECT_EQ(window.box, intersect(window.piece.box, plan.reads[static_cast<std::size_t>(window.read)].box));
      } else if (!window.piece.absent) {
        EXPECT_LE(window.pattern.bytes_read(), std::max<std::int64_t>(options.window_bytes, 2));
      }
      if (i == 0) continue;
      const Window& before = windows[i - 1];
      // Absent chunks have no place in a file.
      const auto place = [](const Window& w) { return std::tuple(w.read, w.piece.file, w.piece.offset_bytes); };
      EXPECT_LE(before.read, window.read);
      if (!before.piece.absent && !window.piece.absent) {
        EXPECT_LE(place(before), place(window));
      }
      const bool plain = window.piece.encoding < 0 && !window.piece.absent;
      if (plain && before.read == window.read && before.piece.number == window.piece.number) {
        EXPECT_LT(before.pattern.offset_bytes, window.pattern.offset_bytes);
      }
      for (std::size_t j = 0; j < i; ++j) {
        if (windows[j].read == window.read) {
          ASSERT_FALSE(overlaps(windows[j].box, window.box));
        }
      }
    }
  }
}

// covers: loading P11
TEST(WindowQueue, OverDecompositionGivesAtLeastKWindowsABox) {
  for (const std::int64_t k : {1, 2, 3, 7, 16}) {
    MadeArrays made;
    add_stack(made, "w", dtypes::kFloat32, {4}, {{16}, {16}});
    PlanOptions options;
    options.over_decompose = k;
    options.strategy = Strategy::per_device;
    const Sharding two(Mesh::of_cpus({"x"}, {2}), PartitionSpec({{"x"}}));
    const Plan plan = make_plan(made.catalog, {{0, two}}, options);
    const auto windows = all_windows(made.catalog, plan);
    for (std::int32_t read = 0; read < 2; ++read) {
      const auto count = std::count_if(windows.begin(), windows.end(), [&](const Window& w) { return w.read == read; });
      EXPECT_GE(count, k);
    }
  }
}

TEST(WindowQueue, TurnedBlocksAreCutSoThatDestinationRowsStayLong) {
  MadeArrays made;
  ArrayEntry entry{"f", "made", dtypes::kFloat32, {1 << 20, 512}, Tiling({512}), {}, {}};
  const std::int32_t file = made.catalog.files.add("f", {std::int64_t{2} << 30, 1});
  entry.tiling.add_plain(1 << 20, file, 0, ByteOrder::little, ElementOrder::f);
  made.catalog.arrays.push_back(entry);
  const Plan plan = whole_on_one(made.catalog);
  const auto windows = all_windows(made.catalog, plan);
  EXPECT_EQ(elems_of(windows), std::int64_t{512} << 20);
  EXPECT_EQ(windows[0].box.shape(), (Shape{4096, 256}));
  for (const Window& window : windows) {
    ASSERT_LE(window.pattern.bytes_read(), 4 << 20);
    ASSERT_FALSE(window.pattern.over_reads);
  }
}

// covers: loading D22
TEST(WindowQueue, WalksAHundredThousandFilesAndAMillionChunksInLinearTime) {
  Catalog catalog;
  ArrayEntry stack{"s", "made", dtypes::kUInt8, {200000, 2}, Tiling({2}), {}, {}};
  for (int f = 0; f < 100000; ++f) {
    stack.tiling.add_plain(2, catalog.files.add("f", {100, 1}), 10, ByteOrder::little, ElementOrder::c);
  }
  catalog.arrays.push_back(std::move(stack));
  ArrayEntry chunks{"c", "made", dtypes::kUInt8, {3000, 3000}, Tiling({3000}), {}, {}};
  ChunkGrid grid;
  grid.chunk_shape = {3, 3};
  grid.offsets.assign(1000000, 0);
  grid.stored_bytes.assign(1000000, 9);
  chunks.tiling.add_grid(3000, 0, std::move(grid), ByteOrder::little, ElementOrder::c);
  catalog.arrays.push_back(std::move(chunks));
  const Plan plan = make_plan(catalog, {{0, Sharding::single()}, {1, Sharding::single()}}, {});
  WindowQueue queue(catalog, plan);
  std::int64_t windows = 0;
  std::int64_t elems = 0;
  while (const auto window = queue.next()) {
    ++windows;
    elems += window->box.num_elems();
  }
  EXPECT_EQ(windows, 1100000);
  EXPECT_EQ(elems, 400000 + 9000000);
}

TEST(WindowQueue, StopsWhenToldTo) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, {{4}, {4}});
  const Plan plan = whole_on_one(made.catalog);
  WindowQueue queue(made.catalog, plan);
  EXPECT_TRUE(queue.next());
  queue.stop();
  EXPECT_FALSE(queue.next());
  EXPECT_FALSE(queue.next());
}

}  // namespace
}  // namespace loadstone
