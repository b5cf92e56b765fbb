#include "loadstone/shard/sharding.h"

#include <chrono>
#include <cstdio>

#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

using test::expect_usage_error;
using test::map_of;
using test::mesh_of;
using test::replicas_of;
using test::sharding_of;
using Lines = std::vector<std::string>;

// "0:1 1:2 2:2 2:2": dimension 0 of every device.
std::string rows_of(const Sharding& sharding, const Shape& shape) {
  Lines parts;
  for (const Shard& shard : sharding.all_shards(shape)) parts.push_back(cat(shard.box.begin[0], ":", shard.box.end[0]));
  return join(parts, " ");
}

// covers: sharding R2
TEST(Sharding, SingleHoldsAllOnCpu0) {
  const Sharding single = Sharding::single();
  EXPECT_EQ(map_of(single, {3, 4}), (Lines{"d0 [:,:] r0"}));
  EXPECT_EQ(map_of(single, {}), (Lines{"d0 [] r0"}));
  EXPECT_EQ(single.devices()[0], (Device{0, 0, {PlaceKind::host, 0}, -1}));
  EXPECT_TRUE(single.is_fully_replicated(2));
  EXPECT_TRUE(single.is_fully_addressable(0));
  EXPECT_FALSE(single.is_fully_addressable(1));
  EXPECT_TRUE(single.same_placement(Sharding(Mesh::of_cpus({"x"}, {1}), parse_spec("x")), 2));
  EXPECT_EQ(Sharding::single(parse_devices("cuda:3")[0]).devices()[0].place, (Place{PlaceKind::cuda, 3}));
}

// covers: sharding R3
TEST(Sharding, GlobalAndLocalMapsAgreeInMeshOrder) {
  const Sharding sharding = sharding_of("x=4,y=2", "y,x", 2, {6, 2, 3, 4, 0, 7, 5, 1});
  const Shape shape{8, 8};
  for (std::int32_t p = 0; p < 4; ++p) {
    std::vector<Shard> expected;
    for (const Shard& shard : sharding.all_shards(shape)) {
      if (shard.device.process == p) expected.push_back(shard);
    }
    EXPECT_EQ(sharding.local_shards(shape, p), expected);
  }
  EXPECT_EQ(sharding.shards(shape, {5, 1})[0], sharding.shard(shape, 5));
  EXPECT_EQ(sharding.shards(shape, {5, 1})[1], sharding.shard(shape, 1));
  expect_usage_error([&] { sharding.shard(shape, 8); }, {"position 8", "8 devices"});
}

TEST(Sharding, ZeroSizesAndScalarsAreFine) {
  EXPECT_EQ(map_of(sharding_of("x=2", "x"), {0, 4}), (Lines{"d0 [:,:] r0", "d1 [:,:] r0"}));
  EXPECT_EQ(rows_of(sharding_of("x=2", "x"), {0, 4}), "0:0 0:0");
  EXPECT_EQ(map_of(sharding_of("x=2", "x"), {4, 0}), (Lines{"d0 [0:2,:] r0", "d1 [2:4,:] r0"}));
  EXPECT_EQ(map_of(sharding_of("x=2", ""), {}), (Lines{"d0 [] r0", "d1 [] r1"}));
  EXPECT_EQ(rows_of(sharding_of("x=3", "x", 2, {}, Uneven::ceil), {0}), "0:0 0:0 0:0");
  expect_usage_error([] { sharding_of("x=2", "").check({-1}); }, {"(-1,)", "negative"});
}

TEST(Sharding, HugeDimensionsDoNotOverflow) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  const Sharding ceil = sharding_of("x=6", "x", 2, {}, Uneven::ceil);
  const std::vector<Shard> shards = ceil.all_shards({huge});
  EXPECT_EQ(shards.front().box.begin[0], 0);
  EXPECT_EQ(shards.back().box.end[0], huge);
  for (std::size_t k = 1; k < shards.size(); ++k) EXPECT_EQ(shards[k].box.begin[0], shards[k - 1].box.end[0]);
  EXPECT_EQ(sharding_of("x=7", "x").shard({huge}, 6).box.end[0], huge);
}

// covers: sharding R15
TEST(Sharding, ReplicationFactorIsTheProductOfUnusedAxes) {
  const auto check = [](const char* axes, const char* spec, int ndim, std::int64_t factor, bool replicated) {
    SCOPED_TRACE(spec);
    const Sharding sharding = sharding_of(axes, spec);
    EXPECT_EQ(sharding.replication_factor(ndim), factor);
    EXPECT_EQ(sharding.is_fully_replicated(ndim), replicated);
  };
  check("x=4,y=2", "x,y", 2, 1, false);
  check("x=4,y=2", "y", 2, 4, false);
  check("x=4,y=2", "", 2, 8, true);
  check("x=1,y=2", "x", 2, 2, true);
  check("x=1,y=1", "x,y", 2, 1, true);
}

TEST(Sharding, SamePlacementComparesWhatIsPlaced) {
  const auto same = [](const Sharding& a, const Sharding& b, int ndim) {
    EXPECT_EQ(a.same_placement(b, ndim), b.same_placement(a, ndim));
    return a.same_placement(b, ndim);
  };
  EXPECT_TRUE(same(sharding_of("x=2,y=2", "x"), sharding_of("x=2,y=2", "x,-"), 2));
  EXPECT_FALSE(sharding_of("x=2,y=2", "x") == sharding_of("x=2,y=2", "x,-"));
  EXPECT_TRUE(same(sharding_of("x=4", "x"), sharding_of("a=2,b=2", "a+b"), 1));
  EXPECT_FALSE(same(sharding_of("x=4", "x"), sharding_of("a=2,b=2", "b+a"), 1));
  EXPECT_TRUE(same(sharding_of("x=2,one=1", "x+one"), sharding_of("x=2,one=1", "x"), 1));
  EXPECT_FALSE(same(sharding_of("x=2,y=2", "x"), sharding_of("x=2,y=2", "y"), 1));
  // The order of devices counts even when all is replicated, and so does their memory.
  EXPECT_FALSE(same(sharding_of("x=2", ""), sharding_of("x=2", "", 2, {1, 0}), 1));
  EXPECT_FALSE(same(Sharding::single(), Sharding::single({0, 0, {PlaceKind::pinned, 0}, -1}), 1));
  EXPECT_FALSE(same(sharding_of("x=2", "x"), sharding_of("x=2", "x", 2, {}, Uneven::ceil), 1));
  EXPECT_TRUE(same(sharding_of("x=2", ""), sharding_of("x=2", "", 2, {}, Uneven::ceil), 1));
  EXPECT_FALSE(same(Sharding::row_tiles(parse_devices("0,1")), sharding_of("x=2", "x", 2, {}, Uneven::ceil), 1));
}

TEST(Uneven, TableOfCeilTiles) {
  const auto check = [](const char* axes, const char* spec, std::int64_t size, const char* boxes) {
    SCOPED_TRACE(boxes);
    EXPECT_EQ(rows_of(sharding_of(axes, spec, 2, {}, Uneven::ceil), {size}), boxes);
  };
  check("x=4", "x", 2, "0:1 1:2 2:2 2:2");
  check("x=4", "x", 10, "0:3 3:6 6:9 9:10");
  check("x=4", "x", 5, "0:2 2:4 4:5 5:5");
  check("x=8", "x", 9, "0:2 2:4 4:6 6:8 8:9 9:9 9:9 9:9");
  check("x=4,y=2", "x+y", 10, "0:2 2:4 4:6 6:8 8:10 10:10 10:10 10:10");
  check("x=2", "x", 3, "0:2 2:3");
  check("x=8", "x", 7, "0:1 1:2 2:3 3:4 4:5 5:6 6:7 7:7");
  check("x=4", "x", 8, "0:2 2:4 4:6 6:8");
}

TEST(Uneven, EmptyBoxesKeepTheRankOverUnusedAxes) {
  const Sharding sharding = sharding_of("x=4,rep=2", "x", 2, {}, Uneven::ceil);
  EXPECT_EQ(rows_of(sharding, {2}), "0:1 0:1 1:2 1:2 2:2 2:2 2:2 2:2");
  EXPECT_EQ(replicas_of(sharding, {2}), (std::vector<std::int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(Uneven, ErrorNamesArrayDimensionAxesAndRemedy) {
  const auto refuses = [](const char* axes, const char* spec, const Shape& shape, const char* message) {
    SCOPED_TRACE(message);
    try {
      sharding_of(axes, spec).check(shape, "w");
      ADD_FAILURE() << "expected an Error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_EQ(error.message(), message);
    }
  };
  refuses("x=4,y=2", "x,y", {8, 3},
          "'w': dimension 1 (size 3) does not divide over mesh axis 'y' (size 2); uneven=ceil allows tiles of 2 and 1");
  refuses("x=2,y=2", "x,y", {1, 2},
          "'w': dimension 0 (size 1) does not divide over mesh axis 'x' (size 2); uneven=ceil allows tiles of 1 and 0");
  refuses("x=4", "x", {5},
          "'w': dimension 0 (size 5) does not divide over mesh axis 'x' (size 4); uneven=ceil allows tiles of 2, 1 and "
          "0");
  refuses("x=4,y=2", "x+y", {10},
          "'w': dimension 0 (size 10) does not divide over mesh axes 'x' (size 4) and 'y' (size 2), 8 tiles; "
          "uneven=ceil allows tiles of 2 and 0");
  refuses("x=4,y=2", "x,y", {19, 5},
          "'w': dimension 0 (size 19) does not divide over mesh axis 'x' (size 4); uneven=ceil allows tiles of 5 and "
          "4, dimension 1 (size 5) does not divide over mesh axis 'y' (size 2); uneven=ceil allows tiles of 3 and 2");
  EXPECT_EQ(map_of(sharding_of("x=4,y=2", "x,y", 2, {}, Uneven::ceil), {8, 3})[1], "d1 [0:2,2:3] r0");
}

TEST(Uneven, FactsSayWhatWasExpected) {
  try {
    sharding_of("x=4", "x").check({19});
    ADD_FAILURE() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.facts().expected, "a multiple of 4");
    EXPECT_EQ(error.facts().found, "19");
  }
}

TEST(Sharding, CheckNamesTheArrayInFrontOfSpecErrors) {
  expect_usage_error(
      [] {
        sharding_of("replica=1,data=1,m=2", "-,m,-,-").check({2, 2}, "w");
      },
      {"'w': ", "4 entries", "ndim 2"});
  expect_usage_error([] { sharding_of("x=2", "x").check({}, "scale"); }, {"'scale': a scalar takes only the spec P()"});
  expect_usage_error([] { sharding_of("x=2", "q").check({2}, "w"); }, {"'w': unknown mesh axis 'q'", "axes x"});
  expect_usage_error([] { sharding_of("x=2", "x,x").check({2, 2}, "w\n"); }, {"'w\\n': mesh axis 'x' is used twice"});
}

TEST(FromBoxes, FollowsItsTable) {
  const std::vector<Device> devices = parse_devices("4,2,7,1,9");
  const Box top{{0, 0}, {2, 3}};
  const Box bottom{{2, 0}, {4, 3}};
  const Sharding sharding =
      Sharding::from_boxes(devices, {4, 3}, {bottom, top, bottom, Box{{4, 0}, {4, 3}}, Box{{4, 0}, {4, 3}}});
  EXPECT_EQ(map_of(sharding, {4, 3}),
            (Lines{"d4 [2:4,:] r0", "d2 [0:2,:] r0", "d7 [2:4,:] r1", "d1 [4:4,:] r0", "d9 [4:4,:] r0"}));
  EXPECT_EQ(sharding.tiles(2, {0, 1, 2, 3, 4}), (std::vector<std::int64_t>{0, 1, 0, 3, 4}));
  EXPECT_EQ(sharding.replication_factor(2), 1);
  EXPECT_FALSE(sharding.is_fully_replicated(2));
  EXPECT_EQ(unique_boxes(sharding, {4, 3}).size(), 4U);
  EXPECT_TRUE(sharding.same_placement(sharding, 2));
  expect_usage_error([&] { sharding.check({4, 4}, "w"); }, {"'w'", "shape (4, 3), found (4, 4)"});
  EXPECT_TRUE(Sharding::from_boxes(parse_devices("0,1"), {2}, {Box{{0}, {2}}, Box{{0}, {2}}}).is_fully_replicated(1));
}

TEST(FromBoxes, RefusesTablesThatDoNotFit) {
  const std::vector<Device> two = parse_devices("0,1");
  expect_usage_error([&] { Sharding::from_boxes(two, {4}, {Box{{0}, {4}}}); }, {"2 devices, 1 boxes"});
  expect_usage_error([] { Sharding::from_boxes({}, {4}, {}); }, {"at least 1 device"});
  expect_usage_error(
      [&] {
        Sharding::from_boxes(two, {4}, {Box{{0}, {4}}, Box{{2}, {5}}});
      },
      {"device 1 (cpu:1, process 0)", "(4,)", "(2,) to (5,)"});
  expect_usage_error([&] { Sharding::from_boxes(two, {4}, {Box{{0}, {4}}, Box{{-1}, {2}}}); }, {"device 1"});
  expect_usage_error([&] { Sharding::from_boxes(two, {4}, {Box{{0}, {4}}, Box{{3}, {2}}}); }, {"device 1"});
  expect_usage_error([&] { Sharding::from_boxes(two, {4}, {Box{{0}, {4}}, Box{{0, 0}, {2, 2}}}); }, {"device 1"});
  expect_usage_error(
      [&] {
        Sharding::from_boxes(two, {4}, {Box{{0}, {2}}, Box{{1}, {3}}});
      },
      {"do not cover", "expected 4 elements, found 3"});
  const Shape absurd{std::int64_t{1} << 40, std::int64_t{1} << 40};
  expect_usage_error([&] { Sharding::from_boxes(two, absurd, {Box::whole(absurd), Box::whole(absurd)}); }, {"2^63-1"});
  EXPECT_NO_THROW(Sharding::from_boxes(two, {4}, {Box{{0}, {3}}, Box{{1}, {4}}}));
  EXPECT_NO_THROW(Sharding::from_boxes(two, {0, 4}, {Box{{0, 0}, {0, 4}}, Box{{0, 0}, {0, 0}}}));
}

TEST(RowTilesSharding, SplitsOnlyTheFirstDimension) {
  const Sharding sharding = Sharding::row_tiles(parse_devices("0,1,2,3"));
  EXPECT_EQ(sharding.kind(), Sharding::Kind::row_tiles);
  EXPECT_EQ(sharding.mesh().axis_names(), (Lines{"tile"}));
  EXPECT_EQ(map_of(sharding, {10, 6}), (Lines{"d0 [0:3,:] r0", "d1 [3:6,:] r0", "d2 [6:9,:] r0", "d3 [9:10,:] r0"}));
  EXPECT_EQ(sharding.shard_shape({10, 6}), (Shape{3, 6}));
  EXPECT_EQ(sharding.replication_factor(2), 1);
  EXPECT_EQ(sharding.tiles_per_dim(2), (Dims{4, 1}));
  expect_usage_error([&] { sharding.check({}, "w"); }, {"'w'", "scalar"});
  expect_usage_error([] { Sharding::row_tiles({}); }, {"at least 1 device"});
  expect_usage_error([] { Sharding::row_tiles(parse_devices("0"), 0); }, {"over-decomposition", "found 0"});
}

// Not a test of speed: the figure is for people. One process of 8,192 x 8 devices asks for its shards.
TEST(Sharding, OneProcessOfALargeMesh) {
  const Sharding sharding = sharding_of("data=512,model=16,pipe=8", "data,model+pipe", 8);
  const Shape shape{512 * 4, 128 * 3};
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Shard> shards = sharding.local_shards(shape, 777);
  const auto micros =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start).count();
  std::printf("local_shards of one process of 65,536 devices: %lld us\n", static_cast<long long>(micros));
  ASSERT_EQ(shards.size(), 8U);
  EXPECT_EQ(shards[0].position, 777 * 8);
  EXPECT_EQ(to_string(shards[0].box), "[192:196, 216:219]");
}

}  // namespace
}  // namespace loadstone
