// The worked examples of the sharding requirements: maps, replica ids, roles and groups as written there. Device k is
// on process k / 2 unless a test says otherwise.
#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

using test::Groups;
using test::inferred;
using test::map_of;
using test::replicas_of;
using test::roles_of;
using test::sharding_of;
using test::unions_of;
using Lines = std::vector<std::string>;
using Ids = std::vector<std::int64_t>;

const Shape kImage{64, 128};
const Groups kAllDistinct{{0}, {1}, {2}, {3}};
const std::vector<std::int64_t> kFigure2{6, 2, 3, 4, 0, 7, 5, 1};
const std::vector<std::int64_t> kFigure10{0, 4, 2, 6, 1, 5, 3, 7};

void expect_num_addressable(const Sharding& sharding, const Shape& shape, const Shape& expected) {
  for (std::int32_t p = 0; p < sharding.mesh().process_count(); ++p) {
    EXPECT_EQ(num_addressable(sharding, shape, p), expected) << "process " << p;
  }
}

// covers: sharding G1, sharding R3, sharding R4
TEST(Golden, G1ColumnsOverEightDevices) {
  const Sharding sharding = sharding_of("x=8", "-,x");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [:,0:16] r0", "d1 [:,16:32] r0", "d2 [:,32:48] r0", "d3 [:,48:64] r0", "d4 [:,64:80] r0",
                   "d5 [:,80:96] r0", "d6 [:,96:112] r0", "d7 [:,112:128] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[:,0:32]", "[:,32:64]", "[:,64:96]", "[:,96:128]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{64, 16}));
  EXPECT_EQ(load_groups(sharding, kImage), kAllDistinct);
  expect_num_addressable(sharding, kImage, {64, 32});
  EXPECT_EQ(roles_of(sharding, kImage, 0), "0/1 0/1 0/1 0/1");
  EXPECT_EQ(roles_of(sharding, kImage, 1), "0/4 1/4 2/4 3/4");
  EXPECT_EQ(inferred(sharding, {64, 32}, 0), "(64,128)");
  EXPECT_EQ(sharding.num_devices(), 8);
  EXPECT_EQ(sharding.mesh().process_count(), 4);
  EXPECT_FALSE(sharding.is_fully_replicated(2));
  EXPECT_FALSE(sharding.is_fully_addressable(0));
  EXPECT_EQ(test::lines(sharding.local_shards(kImage, 1), kImage), (Lines{"d2 [:,32:48] r0", "d3 [:,48:64] r0"}));
}

// covers: sharding G2, sharding R4
TEST(Golden, G2ColumnsFollowMeshOrderNotIds) {
  const Sharding sharding = sharding_of("x=8", "-,x", 2, kFigure2);
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d6 [:,0:16] r0", "d2 [:,16:32] r0", "d3 [:,32:48] r0", "d4 [:,48:64] r0", "d0 [:,64:80] r0",
                   "d7 [:,80:96] r0", "d5 [:,96:112] r0", "d1 [:,112:128] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage),
            (Lines{"[:,64:80] [:,112:128]", "[:,16:48]", "[:,48:64] [:,96:112]", "[:,0:16] [:,80:96]"}));
  EXPECT_EQ(roles_of(sharding, kImage, 1), "3/4 1/4 2/4 0/4");
  EXPECT_EQ(load_groups(sharding, kImage), (Groups{{3}, {1}, {2}, {0}}));
  expect_num_addressable(sharding, kImage, {64, 32});
  EXPECT_EQ(inferred(sharding, {64, 32}, 2), "(64,128)");
}

// covers: sharding G3, sharding R4
TEST(Golden, G3TwoByFour) {
  const Sharding sharding = sharding_of("x=2,y=4", "x,y");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:32,0:32] r0", "d1 [0:32,32:64] r0", "d2 [0:32,64:96] r0", "d3 [0:32,96:128] r0",
                   "d4 [32:64,0:32] r0", "d5 [32:64,32:64] r0", "d6 [32:64,64:96] r0", "d7 [32:64,96:128] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[0:32,0:64]", "[0:32,64:128]", "[32:64,0:64]", "[32:64,64:128]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{32, 32}));
  EXPECT_EQ(load_groups(sharding, kImage), kAllDistinct);
  expect_num_addressable(sharding, kImage, {32, 64});
  EXPECT_EQ(inferred(sharding, {32, 64}, 3), "(64,128)");
}

// covers: sharding G4
TEST(Golden, G4FourByTwo) {
  const Sharding sharding = sharding_of("x=4,y=2", "x,y");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:16,0:64] r0", "d1 [0:16,64:128] r0", "d2 [16:32,0:64] r0", "d3 [16:32,64:128] r0",
                   "d4 [32:48,0:64] r0", "d5 [32:48,64:128] r0", "d6 [48:64,0:64] r0", "d7 [48:64,64:128] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[0:16,:]", "[16:32,:]", "[32:48,:]", "[48:64,:]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{16, 64}));
  EXPECT_EQ(load_groups(sharding, kImage), kAllDistinct);
  expect_num_addressable(sharding, kImage, {16, 128});
}

// covers: sharding G5
TEST(Golden, G5AxesSwapped) {
  const Sharding sharding = sharding_of("x=4,y=2", "y,x");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:32,0:32] r0", "d1 [32:64,0:32] r0", "d2 [0:32,32:64] r0", "d3 [32:64,32:64] r0",
                   "d4 [0:32,64:96] r0", "d5 [32:64,64:96] r0", "d6 [0:32,96:128] r0", "d7 [32:64,96:128] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[:,0:32]", "[:,32:64]", "[:,64:96]", "[:,96:128]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{32, 32}));
  EXPECT_EQ(load_groups(sharding, kImage), kAllDistinct);
  expect_num_addressable(sharding, kImage, {64, 32});
}

// covers: sharding G6
TEST(Golden, G6TwoAxesOnOneDimension) {
  const Sharding sharding = sharding_of("x=4,y=2", "x+y");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:8,:] r0", "d1 [8:16,:] r0", "d2 [16:24,:] r0", "d3 [24:32,:] r0", "d4 [32:40,:] r0",
                   "d5 [40:48,:] r0", "d6 [48:56,:] r0", "d7 [56:64,:] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[0:16,:]", "[16:32,:]", "[32:48,:]", "[48:64,:]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{8, 128}));
  EXPECT_EQ(roles_of(sharding, kImage, 0), "0/4 1/4 2/4 3/4");
}

// covers: sharding G7
TEST(Golden, G7TheFirstNameVariesSlowest) {
  const Sharding sharding = sharding_of("x=4,y=2", "y+x");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:8,:] r0", "d1 [32:40,:] r0", "d2 [8:16,:] r0", "d3 [40:48,:] r0", "d4 [16:24,:] r0",
                   "d5 [48:56,:] r0", "d6 [24:32,:] r0", "d7 [56:64,:] r0"}));
  EXPECT_EQ(unions_of(sharding, kImage),
            (Lines{"[0:8,:] [32:40,:]", "[8:16,:] [40:48,:]", "[16:24,:] [48:56,:]", "[24:32,:] [56:64,:]"}));
  EXPECT_FALSE(sharding.same_placement(sharding_of("x=4,y=2", "x+y"), 2));
  expect_num_addressable(sharding, kImage, {16, 128});
}

// covers: sharding G8, sharding R13
TEST(Golden, G8FullReplication) {
  for (const char* axes : {"x=8", "x=2,y=4", "a=2,b=2,c=2"}) {
    const Sharding sharding = sharding_of(axes, "");
    EXPECT_EQ(map_of(sharding, kImage), (Lines{"d0 [:,:] r0", "d1 [:,:] r1", "d2 [:,:] r2", "d3 [:,:] r3",
                                               "d4 [:,:] r4", "d5 [:,:] r5", "d6 [:,:] r6", "d7 [:,:] r7"}));
    EXPECT_EQ(load_groups(sharding, kImage), (Groups{{0, 1, 2, 3}}));
    EXPECT_EQ(unique_boxes(sharding, kImage).size(), 1U);
    EXPECT_EQ(unique_local_boxes(sharding, kImage, 2).size(), 1U);
    EXPECT_TRUE(sharding.is_fully_replicated(2));
    EXPECT_EQ(sharding.replication_factor(2), 8);
    EXPECT_TRUE(process_has_all(sharding, kImage, 3));
    EXPECT_EQ(roles_of(sharding, kImage, 0), "0/1 0/1 0/1 0/1");
    EXPECT_EQ(inferred(sharding, kImage, 1), "(64,128)");
  }
}

// covers: sharding G9, sharding R14, sharding R15
TEST(Golden, G9PartialReplicationWhereAllNeedAll) {
  const Sharding sharding = sharding_of("rep=4,row=2", "row");
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:32,:] r0", "d1 [32:64,:] r0", "d2 [0:32,:] r1", "d3 [32:64,:] r1", "d4 [0:32,:] r2",
                   "d5 [32:64,:] r2", "d6 [0:32,:] r3", "d7 [32:64,:] r3"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[:,:]", "[:,:]", "[:,:]", "[:,:]"}));
  EXPECT_EQ(sharding.shard_shape(kImage), (Shape{32, 128}));
  EXPECT_EQ(load_groups(sharding, kImage), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(sharding.replication_factor(2), 4);
  EXPECT_TRUE(process_has_all(sharding, kImage, 0));
}

// covers: sharding G10, sharding R14, sharding R15
TEST(Golden, G10PartialReplicationInTwoGroups) {
  const Sharding sharding = sharding_of("rep=4,row=2", "row", 2, kFigure10);
  EXPECT_EQ(map_of(sharding, kImage),
            (Lines{"d0 [0:32,:] r0", "d4 [32:64,:] r0", "d2 [0:32,:] r1", "d6 [32:64,:] r1", "d1 [0:32,:] r2",
                   "d5 [32:64,:] r2", "d3 [0:32,:] r3", "d7 [32:64,:] r3"}));
  EXPECT_EQ(unions_of(sharding, kImage), (Lines{"[0:32,:]", "[0:32,:]", "[32:64,:]", "[32:64,:]"}));
  EXPECT_EQ(load_groups(sharding, kImage), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(roles_of(sharding, kImage, 0), "0/2 0/2 1/2 1/2");
  EXPECT_EQ(inferred(sharding, {32, 128}, 1), "(64,128)");
  EXPECT_FALSE(process_has_all(sharding, kImage, 0));
}

// covers: sharding G11, sharding R16, sharding R25
TEST(Golden, G11PureDataParallel) {
  const Sharding sharding = sharding_of("batch=8", "batch");
  const Shape shape{64, 3};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:8,:] r0", "d1 [8:16,:] r0", "d2 [16:24,:] r0", "d3 [24:32,:] r0", "d4 [32:40,:] r0",
                   "d5 [40:48,:] r0", "d6 [48:56,:] r0", "d7 [56:64,:] r0"}));
  EXPECT_EQ(unions_of(sharding, shape), (Lines{"[0:16,:]", "[16:32,:]", "[32:48,:]", "[48:64,:]"}));
  EXPECT_EQ(load_groups(sharding, shape), kAllDistinct);
  EXPECT_EQ(inferred(sharding, {16, 3}, 0), "(64,3)");
  EXPECT_EQ(roles_of(sharding, shape, 0), "0/4 1/4 2/4 3/4");
}

// covers: sharding G12
TEST(Golden, G12ModelParallelInsideAProcess) {
  const Sharding sharding = sharding_of("replicas=4,model=2", "replicas", 4);
  const Shape shape{32, 3};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:8,:] r0", "d1 [0:8,:] r1", "d2 [8:16,:] r0", "d3 [8:16,:] r1", "d4 [16:24,:] r0",
                   "d5 [16:24,:] r1", "d6 [24:32,:] r0", "d7 [24:32,:] r1"}));
  EXPECT_EQ(unions_of(sharding, shape), (Lines{"[0:16,:]", "[16:32,:]"}));
  EXPECT_EQ(load_groups(sharding, shape), (Groups{{0}, {1}}));
  EXPECT_EQ(inferred(sharding, {16, 3}, 1), "(32,3)");
  const std::vector<HeldBox> local = unique_local_boxes(sharding, shape, 1);
  ASSERT_EQ(local.size(), 2U);
  EXPECT_EQ(local[0].positions, (Ids{4, 5}));
  EXPECT_EQ(local[1].positions, (Ids{6, 7}));
}

// covers: sharding G13, sharding R9, sharding R22, sharding R25
TEST(Golden, G13ModelParallelAcrossProcesses) {
  const Sharding sharding = sharding_of("replicas=4,model=2", "replicas", 2, kFigure10);
  const Shape shape{64, 3};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:16,:] r0", "d4 [0:16,:] r1", "d2 [16:32,:] r0", "d6 [16:32,:] r1", "d1 [32:48,:] r0",
                   "d5 [32:48,:] r1", "d3 [48:64,:] r0", "d7 [48:64,:] r1"}));
  EXPECT_EQ(unions_of(sharding, shape),
            (Lines{"[0:16,:] [32:48,:]", "[16:32,:] [48:64,:]", "[0:16,:] [32:48,:]", "[16:32,:] [48:64,:]"}));
  EXPECT_EQ(load_groups(sharding, shape), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(roles_of(sharding, shape, 0), "0/2 1/2 0/2 1/2");
  EXPECT_EQ(inferred(sharding, {32, 3}, 2), "(64,3)");
  expect_num_addressable(sharding, shape, {32, 3});
}

// covers: sharding G14, sharding R4
TEST(Golden, G14ThreeDimensions) {
  const Sharding sharding = sharding_of("a=2,b=2,c=2", "c+a,-,b");
  const Shape shape{8, 4, 6};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:2,:,0:3] r0", "d1 [4:6,:,0:3] r0", "d2 [0:2,:,3:6] r0", "d3 [4:6,:,3:6] r0",
                   "d4 [2:4,:,0:3] r0", "d5 [6:8,:,0:3] r0", "d6 [2:4,:,3:6] r0", "d7 [6:8,:,3:6] r0"}));
  EXPECT_EQ(sharding.shard_shape(shape), (Shape{2, 4, 3}));
  expect_num_addressable(sharding, shape, {4, 4, 3});
}

// covers: sharding G15, sharding R15
TEST(Golden, G15FourAxesAndTheSecondFormulation) {
  const Sharding sharding = sharding_of("a=2,b=2,c=2,d=2", "-,d+b,c", 4);
  const Shape shape{8, 4, 2, 2};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [:,0:1,0:1,:] r0", "d1 [:,2:3,0:1,:] r0", "d2 [:,0:1,1:2,:] r0", "d3 [:,2:3,1:2,:] r0",
                   "d4 [:,1:2,0:1,:] r0", "d5 [:,3:4,0:1,:] r0", "d6 [:,1:2,1:2,:] r0", "d7 [:,3:4,1:2,:] r0",
                   "d8 [:,0:1,0:1,:] r1", "d9 [:,2:3,0:1,:] r1", "d10 [:,0:1,1:2,:] r1", "d11 [:,2:3,1:2,:] r1",
                   "d12 [:,1:2,0:1,:] r1", "d13 [:,3:4,0:1,:] r1", "d14 [:,1:2,1:2,:] r1", "d15 [:,3:4,1:2,:] r1"}));
  EXPECT_EQ(sharding.shard_shape(shape), (Shape{8, 1, 1, 2}));
  EXPECT_EQ(load_groups(sharding, shape), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(sharding.replication_factor(4), 2);
  expect_num_addressable(sharding, shape, {8, 2, 2, 2});

  const TileAssignment assignment = tile_assignment(sharding.mesh(), sharding.spec(), 4);
  EXPECT_EQ(assignment.dims, (Dims{1, 4, 2, 1, 2}));
  EXPECT_EQ(assignment.permutation, (Dims{3, 1, 2, 0}));
  EXPECT_EQ(assignment.mesh_shape, (Dims{2, 2, 2, 2}));
  EXPECT_EQ(assignment.positions, (Ids{0, 8, 2, 10, 4, 12, 6, 14, 1, 9, 3, 11, 5, 13, 7, 15}));
}

// covers: sharding G16
TEST(Golden, G16AnAxisOfSizeOneSplitsNothing) {
  const Sharding sharding = sharding_of("x=1,y=2,z=4", "x,-,z");
  const Shape shape{8, 2, 4};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [:,:,0:1] r0", "d1 [:,:,1:2] r0", "d2 [:,:,2:3] r0", "d3 [:,:,3:4] r0", "d4 [:,:,0:1] r1",
                   "d5 [:,:,1:2] r1", "d6 [:,:,2:3] r1", "d7 [:,:,3:4] r1"}));
  EXPECT_EQ(sharding.shard_shape(shape), (Shape{8, 2, 1}));
  EXPECT_EQ(load_groups(sharding, shape), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(sharding.tiles_per_dim(3), (Dims{1, 1, 4}));
}

struct G17Row {
  const char* spec;
  std::vector<std::int64_t> replicas;
  Lines boxes;
  Shape shard;
  bool has_all;
  Shape upstream_shard;  // of (8, 4)
};

// covers: sharding G17
TEST(Golden, G17TableOfSixSpecs) {
  const Lines kAll(8, "[:,:]");
  const std::vector<G17Row> table{
      {"x,y",
       {0, 0, 0, 0, 0, 0, 0, 0},
       {"[0:2,0:1]", "[0:2,1:2]", "[2:4,0:1]", "[2:4,1:2]", "[4:6,0:1]", "[4:6,1:2]", "[6:8,0:1]", "[6:8,1:2]"},
       {2, 1},
       false,
       {2, 2}},
      {"x",
       {0, 1, 0, 1, 0, 1, 0, 1},
       {"[0:2,:]", "[0:2,:]", "[2:4,:]", "[2:4,:]", "[4:6,:]", "[4:6,:]", "[6:8,:]", "[6:8,:]"},
       {2, 2},
       false,
       {2, 4}},
      {"y",
       {0, 0, 1, 1, 2, 2, 3, 3},
       {"[0:4,:]", "[4:8,:]", "[0:4,:]", "[4:8,:]", "[0:4,:]", "[4:8,:]", "[0:4,:]", "[4:8,:]"},
       {4, 2},
       true,
       {4, 4}},
      {"-,y",
       {0, 0, 1, 1, 2, 2, 3, 3},
       {"[:,0:1]", "[:,1:2]", "[:,0:1]", "[:,1:2]", "[:,0:1]", "[:,1:2]", "[:,0:1]", "[:,1:2]"},
       {8, 1},
       true,
       {8, 2}},
      {"x+y",
       {0, 0, 0, 0, 0, 0, 0, 0},
       {"[0:1,:]", "[1:2,:]", "[2:3,:]", "[3:4,:]", "[4:5,:]", "[5:6,:]", "[6:7,:]", "[7:8,:]"},
       {1, 2},
       false,
       {1, 4}},
      {"", {0, 1, 2, 3, 4, 5, 6, 7}, kAll, {8, 2}, true, {8, 4}},
  };
  const Shape shape{8, 2};
  for (const G17Row& row : table) {
    SCOPED_TRACE(row.spec);
    const Sharding sharding = sharding_of("x=4,y=2", row.spec);
    EXPECT_EQ(replicas_of(sharding, shape), row.replicas);
    Lines boxes;
    for (const Shard& shard : sharding.all_shards(shape)) boxes.push_back(test::compact(to_string(shard.box, shape)));
    EXPECT_EQ(boxes, row.boxes);
    EXPECT_EQ(sharding.shard_shape(shape), row.shard);
    for (std::int32_t p = 0; p < 4; ++p) EXPECT_EQ(process_has_all(sharding, shape, p), row.has_all) << p;
    EXPECT_EQ(sharding.shard_shape({8, 4}), row.upstream_shard);
  }
  EXPECT_EQ(sharding_of("x=4,y=2", "-,x").shard_shape({8, 4}), (Shape{8, 1}));
}

// covers: sharding G17
TEST(Golden, G17WhoHasAllInThreeDimensions) {
  const Shape shape{8, 4, 2};
  const auto check = [&](const char* spec, const Shape& shard, bool has_all) {
    SCOPED_TRACE(spec);
    const Sharding sharding = sharding_of("x=2,y=2,z=2", spec);
    EXPECT_EQ(sharding.shard_shape(shape), shard);
    for (std::int32_t p = 0; p < 4; ++p) EXPECT_EQ(process_has_all(sharding, shape, p), has_all) << p;
  };
  check("x,y,z", {4, 2, 1}, false);
  check("x+y,z", {2, 2, 2}, false);
  check("z", {4, 4, 2}, true);
  check("-,-,z", {8, 4, 1}, true);
}

// covers: sharding G18
TEST(Golden, G18ValidButNotUniform) {
  const Sharding sharding = sharding_of("r=2,c=4", "r,c", 4, {0, 1, 4, 5, 2, 6, 3, 7});
  const Shape shape{4, 8};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:2,0:2] r0", "d1 [0:2,2:4] r0", "d4 [0:2,4:6] r0", "d5 [0:2,6:8] r0", "d2 [2:4,0:2] r0",
                   "d6 [2:4,2:4] r0", "d3 [2:4,4:6] r0", "d7 [2:4,6:8] r0"}));
  EXPECT_EQ(roles_of(sharding, shape, 0), "0/1 0/1");
  EXPECT_EQ(roles_of(sharding, shape, 1), "x x");
  EXPECT_EQ(inferred(sharding, {4, 6}, 0), "(4,None)");
  EXPECT_EQ(inferred(sharding, {4, 6}, 1), "(4,None)");
  expect_num_addressable(sharding, shape, {4, 6});
}

// covers: sharding G19
TEST(Golden, G19FourByFourOfADocstring) {
  const Sharding sharding = sharding_of("r=2,c=4", "r,c", 2, {0, 2, 1, 3, 4, 6, 5, 7});
  const Shape shape{4, 4};
  EXPECT_EQ(map_of(sharding, shape),
            (Lines{"d0 [0:2,0:1] r0", "d2 [0:2,1:2] r0", "d1 [0:2,2:3] r0", "d3 [0:2,3:4] r0", "d4 [2:4,0:1] r0",
                   "d6 [2:4,1:2] r0", "d5 [2:4,2:3] r0", "d7 [2:4,3:4] r0"}));
  EXPECT_EQ(unions_of(sharding, shape),
            (Lines{"[0:2,0:1] [0:2,2:3]", "[0:2,1:2] [0:2,3:4]", "[2:4,0:1] [2:4,2:3]", "[2:4,1:2] [2:4,3:4]"}));
  EXPECT_EQ(inferred(sharding, {2, 2}, 0), "(4,4)");
  EXPECT_NO_THROW(sharding.check({2, 4}));
  for (const Shape& rejected : {Shape{2, 2}, Shape{4, 2}}) {
    test::expect_usage_error([&] { sharding.check(rejected, "w"); },
                             {"'w': dimension 1 (size 2) does not divide over mesh axis 'c' (size 4)"});
  }
}

// covers: sharding G20
TEST(Golden, G20ShardsOfTheShapeAskedFor) {
  const Sharding sharding = sharding_of("x=4,y=2", "x,y");
  const Shape asked{12, 2};
  EXPECT_EQ(sharding.shard_shape(asked), (Shape{3, 1}));
  EXPECT_EQ(map_of(sharding, asked),
            (Lines{"d0 [0:3,0:1] r0", "d1 [0:3,1:2] r0", "d2 [3:6,0:1] r0", "d3 [3:6,1:2] r0", "d4 [6:9,0:1] r0",
                   "d5 [6:9,1:2] r0", "d6 [9:12,0:1] r0", "d7 [9:12,1:2] r0"}));
}

}  // namespace
}  // namespace loadstone
