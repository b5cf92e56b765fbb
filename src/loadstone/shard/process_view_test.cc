#include "loadstone/shard/process_view.h"

#include <random>

#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

using test::expect_usage_error;
using test::Groups;
using test::inferred;
using test::roles_of;
using test::sharding_of;
using Ids = std::vector<std::int64_t>;

// One device a tile; the digit in row r and column c is the process that holds tile (r, c).
Sharding held_by(const std::vector<std::string>& rows) {
  std::vector<Device> devices;
  for (const std::string& row : rows) {
    for (const char digit : row) {
      devices.push_back({static_cast<std::int64_t>(devices.size()), digit - '0', {}, -1});
    }
  }
  const Dims sizes{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())};
  return Sharding(Mesh({"r", "c"}, sizes, devices), parse_spec("r,c"));
}

// Roles of all processes on both dimensions of an array with tiles of 3 x 2.
std::vector<std::string> roles(const std::vector<std::string>& rows) {
  const Shape shape{3 * static_cast<std::int64_t>(rows.size()), 2 * static_cast<std::int64_t>(rows[0].size())};
  const Sharding sharding = held_by(rows);
  return {roles_of(sharding, shape, 0), roles_of(sharding, shape, 1)};
}

using Roles = std::vector<std::string>;

// covers: sharding R3
TEST(ProcessIndex, FollowsTheFirstOffsetOnOneDimension) {
  EXPECT_EQ(roles_of(sharding_of("x=8", "x"), {16}, 0), "0/4 1/4 2/4 3/4");
  EXPECT_EQ(roles_of(sharding_of("x=8", "x", 2, {6, 7, 4, 5, 2, 3, 0, 1}), {16}, 0), "3/4 2/4 1/4 0/4");
}

// covers: sharding R3
TEST(ProcessIndex, TableOfUniformGrids) {
  EXPECT_EQ(roles({"1234", "2143"}), (Roles{"- 0/1 0/1 0/1 0/1", "- 0/2 0/2 1/2 1/2"}));
  EXPECT_EQ(roles({"1212", "3434"}), (Roles{"- 0/2 0/2 1/2 1/2", "- 0/2 1/2 0/2 1/2"}));
  EXPECT_EQ(roles({"1111", "2222"}), (Roles{"- 0/2 1/2", "- 0/1 0/1"}));
  EXPECT_EQ(roles({"12", "21"}), (Roles{"- 0/1 0/1", "- 0/1 0/1"}));
  EXPECT_EQ(roles({"1212", "2121"}), (Roles{"- 0/1 0/1", "- 0/1 0/1"}));
  EXPECT_EQ(roles({"1212", "1212"}), (Roles{"- 0/1 0/1", "- 0/2 1/2"}));
}

TEST(ProcessIndex, NonUniformGridsNameTheDimension) {
  EXPECT_EQ(roles({"1122", "2121", "1121", "1222"}), (Roles{"- 0/1 0/1", "- x x"}));
  expect_usage_error(
      [] {
        process_index_and_count(held_by({"1122", "2121", "1121", "1222"}), {4, 4}, 1, 1);
      },
      {"NonUniformShardingError: dimension 1", "process 1 holds 0:1, 1:2, 3:4", "process 2 holds 0:1, 1:2, 2:3, 3:4",
       "sets of different size"});
  expect_usage_error(
      [] {
        process_index_and_count(sharding_of("r=2,c=4", "r,c", 4, {0, 1, 4, 5, 2, 6, 3, 7}), {4, 8}, 1, 0);
      },
      {"process 0 holds", "process 1 holds", "overlap in part"});
}

TEST(ProcessIndex, FullyAddressableAndReplicatedAreOneRole) {
  EXPECT_EQ(roles_of(sharding_of("x=4", "x", 4), {8}, 0), "0/1");
  EXPECT_EQ(roles_of(sharding_of("x=4", "", 1), {8}, 0), "0/1 0/1 0/1 0/1");
}

TEST(ProcessIndex, ZeroRowsKeepTheirRoles) {
  EXPECT_EQ(roles_of(sharding_of("x=8", "x"), {0, 4}, 0), "0/4 1/4 2/4 3/4");
}

TEST(ProcessIndex, UnevenDimensionsCountWhatIsHeld) {
  const auto ceil = [](std::int64_t size) { return roles_of(sharding_of("x=8", "x", 2, {}, Uneven::ceil), {size}, 0); };
  EXPECT_EQ(ceil(16), "0/4 1/4 2/4 3/4");
  EXPECT_EQ(ceil(9), "x x x x");  // 2,2,2,2,1,0,0,0: processes 2 and 3 hold one and no tile
  EXPECT_EQ(ceil(15), "0/4 1/4 2/4 3/4");
}

TEST(ProcessIndex, DimensionMustExist) {
  expect_usage_error([] { process_index_and_count(sharding_of("x=2", "x"), {4}, 1, 0); }, {"dimension 1", "ndim 1"});
  expect_usage_error([] { process_index_and_count(sharding_of("x=2", "x"), {3}, 0, 0); }, {"does not divide"});
}

// covers: sharding R29
TEST(ProcessView, AProcessWithoutDevicesHasNothing) {
  const Sharding sharding = held_by({"1221", "1221", "0000"});
  const Shape shape{3, 4};
  EXPECT_EQ(num_addressable(sharding, shape, 7), (Shape{0, 0}));
  EXPECT_EQ(process_index_and_count(sharding, shape, 0, 7), std::nullopt);
  EXPECT_TRUE(unique_local_boxes(sharding, shape, 7).empty());
  EXPECT_TRUE(sharding.local_shards(shape, 7).empty());
  EXPECT_FALSE(process_has_all(sharding, shape, 7));
  EXPECT_EQ(inferred(sharding, shape, 7), "(None,None)");
}

TEST(NumAddressable, SumsDistinctIntervals) {
  const Sharding sharding = held_by({"1221", "1221", "0000"});
  EXPECT_EQ(num_addressable(sharding, {3, 4}, 1), (Shape{2, 2}));
  EXPECT_EQ(num_addressable(sharding, {3, 4}, 2), (Shape{2, 2}));
  EXPECT_EQ(num_addressable(sharding, {3, 4}, 0), (Shape{1, 4}));
  const Sharding ceil = sharding_of("x=8", "x", 2, {}, Uneven::ceil);
  EXPECT_EQ(num_addressable(ceil, {9, 5}, 2), (Shape{1, 5}));
  EXPECT_EQ(num_addressable(ceil, {9, 5}, 3), (Shape{0, 5}));
  EXPECT_EQ(num_addressable(sharding_of("x=2", ""), {}, 0), Shape{});
}

TEST(LocalToGlobalShape, TableOfOneMesh) {
  const auto check = [](const char* spec, std::int64_t devices_per_process, const Shape& local, const char* expected) {
    SCOPED_TRACE(cat(spec, " with ", devices_per_process));
    const Sharding sharding = sharding_of("a=2,b=2,c=2", spec, devices_per_process);
    for (std::int32_t p = 0; p < sharding.mesh().process_count(); ++p) {
      EXPECT_EQ(inferred(sharding, local, p), expected);
    }
  };
  check("", 2, {4, 6}, "(4,6)");
  check("a+b+c", 2, {4, 6}, "(16,6)");
  check("a+b", 2, {4, 6}, "(16,6)");
  check("-,a+c", 2, {4, 6}, "(4,12)");
  check("a+c,b", 2, {4, 6}, "(8,12)");
  check("a+b,c", 8, {4, 4}, "(4,4)");
  check("a+b,c", 4, {4, 4}, "(8,4)");
  check("a+b,c", 2, {4, 4}, "(16,4)");
  check("a+b,c", 1, {4, 4}, "(16,8)");
}

TEST(LocalToGlobalShape, NoneWhereNotUniformOrUneven) {
  EXPECT_EQ(inferred(sharding_of("r=2,c=4", "r,c", 4, {0, 1, 4, 5, 2, 6, 3, 7}), {4, 6}, 0), "(4,None)");
  const Sharding replicas = sharding_of("rep=2,x=4", "x", 2, {0, 1, 2, 3, 7, 4, 5, 6});
  EXPECT_EQ(inferred(replicas, {2}, 0), "(None)");
  EXPECT_EQ(roles_of(replicas, {8}, 0), "x x x x");
  EXPECT_EQ(test::unions_of(replicas, {4}), (std::vector<std::string>{"[0:2]", "[2:4]", "[1:3]", "[0:1] [3:4]"}));
  EXPECT_EQ(inferred(sharding_of("x=8", "x", 2, {}, Uneven::ceil), {4, 6}, 0), "(None,6)");
  expect_usage_error([] { local_to_global_shape(Sharding::row_tiles(parse_devices("0,1")), {4}, 0); },
                     {"give it explicitly"});
  expect_usage_error([] { inferred(sharding_of("x=8", "x"), {std::int64_t{1} << 62}, 0); }, {"dimension 0"});
}

// covers: sharding R14, sharding R15
TEST(LoadGroups, AreOrderedByBoxesAndLeaveOutWhoHoldsNothing) {
  EXPECT_EQ(load_groups(held_by({"21", "21"}), {4, 4}), (Groups{{2}, {1}}));
  EXPECT_EQ(load_groups(held_by({"12", "21"}), {4, 4}), (Groups{{1}, {2}}));
  const Sharding ceil = sharding_of("x=8", "x", 2, {}, Uneven::ceil);
  EXPECT_EQ(load_groups(ceil, {9}), (Groups{{0}, {1}, {2}}));
  EXPECT_TRUE(load_groups(sharding_of("x=8", "x"), {0, 3}).empty());
  EXPECT_EQ(load_groups(sharding_of("x=8", ""), {}), (Groups{{0, 1, 2, 3}}));
}

TEST(UniqueBoxes, ListHoldersInMeshOrder) {
  const Sharding sharding = sharding_of("rep=2,x=2", "x", 4, {3, 1, 0, 2});
  const std::vector<HeldBox> held = unique_boxes(sharding, {4});
  ASSERT_EQ(held.size(), 2U);
  EXPECT_EQ(to_string(held[0].box), "[0:2]");
  EXPECT_EQ(held[0].positions, (Ids{0, 2}));
  EXPECT_EQ(held[1].positions, (Ids{1, 3}));
}

TEST(UniqueBoxes, EmptyBoxesOfDifferentTilesStayApart) {
  const Sharding ceil = sharding_of("x=4,rep=2", "x", 8, {}, Uneven::ceil);
  const std::vector<HeldBox> held = unique_local_boxes(ceil, {2}, 0);
  ASSERT_EQ(held.size(), 4U);
  EXPECT_EQ(to_string(held[2].box), "[2:2]");
  EXPECT_EQ(to_string(held[3].box), "[2:2]");
  EXPECT_EQ(held[2].positions, (Ids{4, 5}));
  EXPECT_EQ(held[3].positions, (Ids{6, 7}));
  EXPECT_EQ(unique_boxes(sharding_of("x=4", "x"), {0}).size(), 4U);
}

TEST(ProcessHasAll, CountsOverlapsOnce) {
  const std::vector<Device> devices = parse_devices("0,1");
  const Sharding overlapping = Sharding::from_boxes(devices, {4}, {Box{{0}, {3}}, Box{{1}, {4}}});
  EXPECT_TRUE(process_has_all(overlapping, {4}, 0));
  EXPECT_FALSE(process_has_all(held_by({"12"}), {1, 2}, 1));
  expect_usage_error([&] { process_index_and_count(overlapping, {4}, 0, 0); }, {"process 0 holds 0:3, 1:4", "overlap"});
}

std::vector<std::string> merged(const std::vector<Box>& boxes) {
  std::vector<std::string> out;
  for (const Box& box : merge_boxes(boxes)) out.push_back(to_string(box));
  return out;
}

TEST(MergeBoxes, GrowsInnerDimensionsFirst) {
  using Out = std::vector<std::string>;
  EXPECT_EQ(merged({}), Out{});
  EXPECT_EQ(merged({Box{{0, 16}, {64, 32}}, Box{{0, 0}, {64, 16}}}), Out{"[0:64, 0:32]"});
  EXPECT_EQ(merged({Box{{0}, {4}}, Box{{0}, {4}}, Box{{2}, {2}}}), Out{"[0:4]"});
  EXPECT_EQ(merged({Box{{0}, {4}}, Box{{2}, {6}}, Box{{8}, {9}}}), (Out{"[0:6]", "[8:9]"}));
  // Four quarters; an L; a row and a column that cross.
  EXPECT_EQ(merged({Box{{0, 0}, {2, 2}}, Box{{0, 2}, {2, 4}}, Box{{2, 0}, {4, 2}}, Box{{2, 2}, {4, 4}}}),
            Out{"[0:4, 0:4]"});
  EXPECT_EQ(merged({Box{{0, 0}, {4, 2}}, Box{{2, 0}, {4, 4}}}), (Out{"[0:2, 0:2]", "[2:4, 0:4]"}));
  EXPECT_EQ(merged({Box{{1, 0}, {2, 3}}, Box{{0, 1}, {3, 2}}}), (Out{"[0:1, 1:2]", "[1:2, 0:3]", "[2:3, 1:2]"}));
  // Not neighbours: each grows on its own past the edge of the other.
  EXPECT_EQ(merged({Box{{0, 0}, {10, 4}}, Box{{5, 8}, {15, 12}}}), (Out{"[0:10, 0:4]", "[5:15, 8:12]"}));
  EXPECT_EQ(merged({Box{}, Box{}}), Out{"[]"});
}

TEST(MergeBoxes, RandomBoxesKeepTheirUnion) {
  std::mt19937_64 random(20240607);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    const int ndim = static_cast<int>(1 + below(3));
    const Box space = Box::whole(Dims::filled(ndim, 6));
    std::vector<Box> boxes(static_cast<std::size_t>(1 + below(8)), space);
    for (Box& box : boxes) {
      for (int d = 0; d < ndim; ++d) {
        box.begin[d] = below(6);
        box.end[d] = box.begin[d] + below(7 - box.begin[d]);
      }
    }
    std::vector<int> wanted(static_cast<std::size_t>(space.num_elems()), 0);
    std::vector<int> found = wanted;
    const auto paint = [&](const Box& box, std::vector<int>& canvas, bool count) {
      for (std::int64_t k = 0; k < space.num_elems(); ++k) {
        std::int64_t rest = k;
        bool inside = true;
        for (int d = ndim - 1; d >= 0; --d) {
          inside = inside && box.begin[d] <= rest % 6 && rest % 6 < box.end[d];
          rest /= 6;
        }
        int& cell = canvas[static_cast<std::size_t>(k)];
        if (inside) cell = count ? cell + 1 : 1;
      }
    };
    for (const Box& box : boxes) paint(box, wanted, false);
    const std::vector<Box> out = merge_boxes(boxes);
    for (const Box& box : out) paint(box, found, true);
    ASSERT_EQ(found, wanted) << "round " << round;
    ASSERT_TRUE(std::is_sorted(out.begin(), out.end()));
    ASSERT_EQ(merge_boxes(out), out) << "the form is canonical";
  }
}

TEST(MergeBoxes, ALargeGridIsCheapAndTanglesAreRefused) {
  std::vector<Box> grid;
  for (std::int64_t r = 0; r < 256; ++r) {
    for (std::int64_t c = 0; c < 256; ++c) grid.push_back({{c * 3, r * 5}, {c * 3 + 3, r * 5 + 5}});
  }
  EXPECT_EQ(merged(grid), std::vector<std::string>{"[0:768, 0:1280]"});
  std::vector<Box> tangle;
  for (std::int64_t k = 0; k < 4000; ++k) tangle.push_back({{k, 2 * k}, {k + 4000, 2 * k + 1}});
  expect_usage_error([&] { merge_boxes(tangle); }, {"4000 overlapping or staggered boxes", "cells"});
  expect_usage_error([] { merge_boxes({Box{{0}, {1}}, Box{{0, 0}, {1, 1}}}); }, {"different arrays"});
}

}  // namespace
}  // namespace loadstone
