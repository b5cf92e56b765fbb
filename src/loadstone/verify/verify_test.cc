#include "loadstone/verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "loadstone/base/error.h"
#include "loadstone/verify/test_helpers.h"
#include "loadstone/verify/verdict_json.h"

namespace loadstone {
namespace {

using namespace test;  // NOLINT: short notation for tests

const DType kF32 = dtypes::kFloat32;

World rows_world() {
  return World({64, 6}, kF32, sharding_of("x=8", "x"));
}

Verdict against(World& world, const ManifestArray& manifest, bool read = true, bool device = true) {
  VerifyOptions options;
  options.manifest = &manifest;
  options.device = device;
  if (read) options.read = world.reader();
  return world.verify(options);
}

// ---- L0 ----

TEST(Structure, MissingExtraAndDoubleDevicesAreNamed) {
  World world({64, 128}, kF32, sharding_of("x=4", "x", 4));
  const HeldShard gone = world.of(2);
  std::erase_if(world.held(), [](const HeldShard& held) { return held.shard.device.id == 2; });
  HeldShard extra = gone;
  extra.shard.device.id = 17;
  world.held().push_back(extra);
  world.held().push_back(world.of(1));
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L0 d17 p0: [32:48,:] device: not one of the sharding's",
                                            "L0 d1 p0: [16:32,:] device: expected one buffer, found another one",
                                            "L0 d2 p0: [32:48,:] buffer: expected shape (16, 128), found none"}));
  EXPECT_EQ(verdict.shards, 5);
}

TEST(Structure, OnlyTheDevicesOfTheProcessesSeenMustBeThere) {
  World world = rows_world();
  world.keep_process(1);
  expect_silent(world.with_source());
  VerifyOptions options;
  options.process = 2;
  EXPECT_EQ(accusations_of(world.verify(options)),
            (Lines{"L0 d4 p2: [32:40,:] buffer: expected shape (8, 6), found none",
                   "L0 d5 p2: [40:48,:] buffer: expected shape (8, 6), found none"}));
}

TEST(Structure, NothingHeldOnASingleProcessIsAccused) {
  World world({4, 4}, kF32, sharding_of("x=2", "x"));
  world.held().clear();
  EXPECT_EQ(world.without_source().accusations.size(), 2U);
}

TEST(Structure, WrongShapesAndBoxesAreNamedTogether) {
  World world = rows_world();
  world.of(3).data = View::allocate({8, 5}, dtypes::kInt16, world.of(3).shard.device.place);
  world.of(4).shard.box = {{0, 0}, {8, 6}};
  EXPECT_EQ(accusations_of(world.with_source()),
            (Lines{"L0 d3 p1: [24:32,:] shape: expected (8, 6), found (8, 5); dtype: expected float32, found int16",
                   "L0 d4 p2: [32:40,:] box: expected [32:40, :], found [0:8, :]"}));
}

TEST(Structure, TheNoteSaysHowTheBoxesLie) {
  EXPECT_EQ(rows_world().without_source().levels[0].note, "8 buffers, 8 boxes cover the array");
  const std::vector<Device> devices = Mesh::of_cpus({"x"}, {2}).devices();
  World world({4, 4}, kF32, Sharding::from_boxes(devices, {4, 4}, {{{0, 0}, {3, 4}}, {{1, 0}, {4, 4}}}));
  const Verdict verdict = world.with_source();
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[0].note, "2 buffers, boxes of the sharding overlap");
}

TEST(Structure, ShapesThatCannotBePlacedAreUsageErrors) {
  World world = rows_world();
  EXPECT_THROW(verify_array("w", kF32, {63, 6}, world.sharding(), world.held(), {}), Error);
}

// ---- L1 ----

// covers: loading E19, loading D10
TEST(Source, ManifestProvesWhatWasRead) {
  for (const int lanes : {1, 2}) {
    World world = rows_world();
    world.set_as_read();
    const ManifestArray manifest = world.manifest();
    VerifyOptions options;
    options.manifest = &manifest;
    options.lanes = lanes;
    const Verdict verdict = world.verify(options);
    expect_silent(verdict);
    EXPECT_TRUE(verdict.levels[1].ran);
    EXPECT_EQ(verdict.levels[1].bytes, 64 * 6 * 4);
    EXPECT_EQ(verdict.digest, to_string(manifest.digest).substr(0, lanes == 1 ? 16 : 33));
  }
}

// covers: loading D10
TEST(Source, AnotherShapeOrDtypeIsAFailedVerificationThatNamesBoth) {
  World world = rows_world();
  ManifestArray manifest = world.manifest();
  manifest.shape = {128, 3};
  manifest.dtype = dtypes::kInt32;
  const Verdict verdict = against(world, manifest);
  EXPECT_FALSE(verdict.ok());
  ASSERT_EQ(verdict.accusations.size(), 1U);
  EXPECT_EQ(to_string(verdict.accusations[0]),
            "L1 source: 'w': [:, :]: shape: expected (128, 3), found (64, 6); dtype: expected int32, found float32 "
            "(expected is what the manifest says)");
}

// covers: loading D10
TEST(Source, DamagedRowsAreLocated) {
  World world({9000, 3}, kF32, sharding_of("x=8", "x"));
  const ManifestArray manifest = world.manifest();
  EXPECT_EQ(manifest.rows_per_block, 3);
  for (const std::int64_t row : {3000, 3004, 8999}) world.source()[static_cast<std::size_t>(12 * row)] ^= std::byte{1};
  world.load();
  for (const bool as_read : {true, false}) {
    for (const bool read : {true, false}) {
      if (as_read) world.set_as_read();
      const Verdict verdict = against(world, manifest, read);
      EXPECT_EQ(accusations_of(verdict), (Lines{"L1 source: [3000:3006,:]", "L1 source: [8997:9000,:]"}));
      EXPECT_EQ(verdict.accusations[0].detail.substr(0, 17), "digest: expected ");
      EXPECT_TRUE(verdict.levels[2].ok);
    }
    world.load();
  }
}

// covers: loading E19
TEST(Source, BytesDamagedBetweenFileAndMemoryAreToldFromDamagedFiles) {
  World world = rows_world();
  const ManifestArray manifest = world.manifest();
  world.set_as_read();
  HeldShard& held = world.of(5);
  held.data.data()[9] ^= std::byte{4};
  held.as_read = Pd61(world.shape(), kF32).tile(held.shard.box, held.data.data());  // it arrived so
  const Verdict verdict = against(world, manifest);
  EXPECT_EQ(accusations_of(verdict), (Lines{"L1 d5 p2: [40:48,:]"}));
  EXPECT_EQ(verdict.accusations[0].first_index, (Dims{40, 2}));
  EXPECT_NE(verdict.levels[1].note.find("the source itself agrees with the manifest"), std::string::npos);
}

// covers: loading E19
TEST(Source, WithoutDigestsOfTheBytesReadTheSumOverMemoryProvesBoth) {
  World world({64, 3}, kF32, sharding_of("replicas=4,model=2", "replicas", 2, kFigure10));
  const ManifestArray manifest = world.manifest();
  const int before = world.reads();
  const Verdict verdict = against(world, manifest);
  expect_silent(verdict);
  EXPECT_EQ(world.reads(), before) << "the source need not be read again";
  EXPECT_EQ(verdict.levels[2].note, "8 shards by the sum of L1");
  world.hold(6, world.box_of(1));
  EXPECT_EQ(accusations_of(against(world, manifest)), (Lines{"L2 d6 p3: [16:32,:] holds [32:48,:] of d1 d5"}));
  world.hold(2, world.box_of(1));
  const Verdict both = against(world, manifest);
  EXPECT_EQ(accusations_of(both),
            (Lines{"L2 d2 p1: [16:32,:] holds [32:48,:] of d1 d5", "L2 d6 p3: [16:32,:] holds [32:48,:] of d1 d5"}));
  EXPECT_TRUE(both.levels[1].ok) << "the files are as the manifest says";
}

// covers: loading E19
TEST(Source, AnIndependentPassFindsWhatThePlannerReadWrongly) {
  World world = rows_world();
  world.hold(3, world.box_of(6));
  const Pd61 rule(world.shape(), kF32);
  for (HeldShard& held : world.held()) held.as_read = rule.tile(held.shard.box, held.data.data());
  expect_silent(world.with_source());  // memory equals what was read: L2 alone cannot know
  VerifyOptions options;
  options.read = world.reader();
  options.independent_pass = true;
  EXPECT_EQ(accusations_of(world.verify(options)), (Lines{"L1 d3 p1: [24:32,:] holds [48:56,:] of d6"}));
  world.keep_process(1);
  EXPECT_EQ(accusations_of(world.verify(options)), (Lines{"L1 d3 p1: [24:32,:] holds [48:56,:] of d6"}));
  world.keep_process(1);
  world.of(3).as_read.reset();
  EXPECT_EQ(accusations_of(world.verify(options)), (Lines{"L2 d3 p1: [24:32,:] holds [48:56,:] of d6"}));
}

TEST(Source, TheIndependentPassIsSilentOnGoodData) {
  for (const bool as_read : {true, false}) {
    World world({64, 128}, kF32, sharding_of("x=2,y=4", "x,y"));
    if (as_read) world.set_as_read();
    VerifyOptions options;
    options.read = world.reader();
    options.independent_pass = true;
    expect_silent(world.verify(options));
    world.keep_process(2);
    expect_silent(world.verify(options));
  }
}

// covers: loading E19
TEST(Source, APartOfTheArrayIsComparedByBlocks) {
  World rows({64, 6}, kF32, sharding_of("x=8", "x"));
  const ManifestArray manifest = rows.manifest();
  rows.set_as_read();
  rows.keep_process(1);
  Verdict verdict = against(rows, manifest, false);
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[1].note, "384 of 1536 bytes are held here: 16 blocks of rows against the manifest");
  ManifestArray other = manifest;
  other.blocks[20].lanes[0] ^= 1;
  EXPECT_EQ(accusations_of(against(rows, other, false)), (Lines{"L1 source: [16:24,:]"}));

  World columns({64, 6}, kF32, sharding_of("x=2,y=2", "x,y", 2));
  columns.keep_process(1);
  verdict = against(columns, manifest, false);
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[1].note, "768 of 1536 bytes are held here: 32 blocks of rows against the manifest");
  other = manifest;
  other.blocks[40].lanes[0] ^= 1;
  EXPECT_EQ(accusations_of(against(columns, other, false)), (Lines{"L1 source: [40:41,:]"}));

  World halves({64, 6}, kF32, sharding_of("x=2", "-,x", 1));
  halves.keep_process(0);
  verdict = against(halves, manifest, false);
  expect_silent(verdict);
  EXPECT_FALSE(verdict.levels[1].ran);
  EXPECT_EQ(verdict.levels[1].note,
            "768 of 1536 bytes are held here, and they contain no whole block of rows of the manifest");
}

// covers: loading E19
TEST(Source, SourceOnlyLooksAtNoMemory) {
  World world = rows_world();
  world.set_as_read();
  const ManifestArray manifest = world.manifest();
  world.of(2).data.data()[0] ^= std::byte{1};
  const Verdict verdict = against(world, manifest, true, false);
  expect_silent(verdict);
  EXPECT_FALSE(verdict.levels[2].ran);
  EXPECT_EQ(verdict.levels[2].note, "not asked for");
  ManifestArray other = manifest;
  other.digest.lanes[0] ^= 1;
  EXPECT_FALSE(against(world, other, false, false).ok());
}

// ---- L2 and L3 ----

// covers: loading E19
TEST(Device, TheDigestsOfTheTapServeAsExpectation) {
  World world({300, 50}, kF32, sharding_of("x=3", "-,x", 3, {}, Uneven::ceil));
  Plan plan;
  plan.arrays.push_back({0, "w", kF32, world.shape(), world.sharding(), false, ""});
  for (const HeldShard& held : world.held()) plan.slots.push_back({0, held.shard, held.data.nbytes()});
  ReadDigests digests(plan, 3, 1);
  int worker = 0;
  for (std::int32_t s = 0; s < 3; ++s) {
    const HeldShard& held = world.held()[static_cast<std::size_t>(s)];
    for (std::int64_t row = 0; row < 300; row += 7) {  // in windows, from several workers
      Box window = held.shard.box;
      window.begin[0] = row;
      window.end[0] = std::min<std::int64_t>(row + 7, 300);
      const std::int64_t stride = window.extent(1) * 4;
      digests.add(worker++ % 3, {s, window, held.data.data() + row * stride, {stride, 4}});
    }
  }
  for (std::int32_t s = 0; s < 3; ++s) world.held()[static_cast<std::size_t>(s)].as_read = digests.of_slot(s);
  const Verdict verdict = world.without_source();
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[2].note, "3 shards against the bytes as read");
  world.of(1).data.data()[77] ^= std::byte{1};
  EXPECT_EQ(accusations_of(world.without_source()), (Lines{"L2 d1 p0: [:,17:34]"}));
}

TEST(Device, BytesEqualToTheSourceAreNotAccused) {
  World world = rows_world();
  world.set_as_read();
  world.of(4).as_read->lanes[0] ^= 1;
  const Verdict verdict = world.with_source();
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[2].note,
            "8 shards against the bytes as read, 1 equal to the source though not to the bytes as read");
}

TEST(Device, StridedAndReversedShardsAreTheirLogicalElements) {
  World world({64, 128}, kF32, sharding_of("x=2,y=4", "x,y"));
  for (const std::int64_t id : {1, 2}) {
    HeldShard& held = world.of(id);
    const Shape shape = held.shard.box.shape();
    const View room = View::allocate({shape[1], shape[0]}, kF32, held.shard.device.place);
    const View turned(room.memory(), 0, Layout(shape, f_strides(shape)), kF32);
    strided_copy({turned.data(), {4, 4 * shape[0]}}, {held.data.data(), byte_strides(shape, 4)}, shape, 4);
    held.data = turned;
  }
  expect_silent(world.with_source());
  HeldShard& held = world.of(2);
  held.data.data()[4 * (32 * 5 + 3)] ^= std::byte{1};  // row 3, column 5 of its box
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L2 d2 p1: [0:32,64:96]"}));
  EXPECT_EQ(verdict.accusations[0].first_index, (Dims{3, 69}));
  EXPECT_EQ(verdict.accusations[0].byte_offset, 4 * (32 * 5 + 3));
}

TEST(Device, EveryAccusedDeviceIsNamedOnAnyNumberOfWorkers) {
  World world({256, 3}, dtypes::kUInt8, sharding_of("x=64", "x", 8));
  for (std::int64_t id = 0; id < 64; ++id) world.hold(id, world.box_of(63 - id));
  const ThreadPool pool(4);
  VerifyOptions options;
  options.read = world.reader();
  const Lines expected = accusations_of(world.verify(options));
  EXPECT_EQ(expected.size(), 64U);
  EXPECT_EQ(expected[0], "L2 d0 p0: [0:4,:] holds [252:256,:] of d63");
  options.pool = &pool;
  EXPECT_EQ(accusations_of(world.verify(options)), expected);
}

TEST(Device, OwnersAreFoundAmongBoxesThatBeginAlike) {
  World world({8, 100000}, dtypes::kUInt8, sharding_of("x=8", "x"));
  std::fill(world.source().begin(), world.source().end(), std::byte{3});
  for (std::size_t row = 0; row < 8; ++row) world.source()[row * 100000 + 61803] = static_cast<std::byte>(row);
  world.load();
  world.hold(2, world.box_of(7));
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L2 d2 p1: [2:3,:] holds [7:8,:] of d7"}));
  EXPECT_EQ(verdict.accusations[0].first_index, (Dims{2, 61803}));
  EXPECT_EQ(verdict.accusations[0].expected_bits, "0x02");
  EXPECT_EQ(verdict.accusations[0].found_bits, "0x07");
}

TEST(Device, PackedTypesAreComparedByElement) {
  const DType int4{0, 4, 1};
  const Shape shape{4, 6};
  const Sharding sharding = sharding_of("x=2", "x");
  const Bytes data = random_bytes(12, 8);
  std::vector<HeldShard> held;
  for (const Shard& shard : sharding.all_shards(shape)) {
    View view = View::allocate({2, 6}, int4, shard.device.place);
    std::memcpy(view.data(), data.data() + 6 * shard.position, 6);
    held.push_back({shard, view, {}});
  }
  VerifyOptions options;
  options.read = [&](const Box& box, std::span<std::byte> dst) {
    std::memcpy(dst.data(), data.data() + linear_index(box.begin, Box::whole(shape)) / 2, dst.size());
  };
  expect_silent(verify_array("q", int4, shape, sharding, held, options));
  held[1].data.data()[4] ^= std::byte{0x20};  // element 9 of the shard: row 1, column 3
  const Verdict verdict = verify_array("q", int4, shape, sharding, held, options);
  ASSERT_EQ(verdict.accusations.size(), 1U);
  EXPECT_EQ(verdict.accusations[0].first_index, (Dims{3, 3}));
  EXPECT_EQ(verdict.accusations[0].byte_offset, 4);
  EXPECT_EQ(verdict.accusations[0].expected_bits.size(), 3U);
}

TEST(Replicas, TiesNameNoCulprit) {
  World world({64, 128}, kF32, sharding_of("rep=4,row=2", "row"));
  for (const std::int64_t id : {4, 6}) world.of(id).data.data()[100] ^= std::byte{1};
  const Verdict verdict = world.without_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L3 d0 p0: [0:32,:] or d4 p2", "L3 d0 p0: [0:32,:] or d6 p3"}));
  EXPECT_EQ(verdict.accusations[0].detail, "devices 0, 2 agree; devices 4, 6 agree");
}

// covers: faults F5
TEST(Replicas, AMinorityThatHoldsAnotherBoxIsSaidSo) {
  World world({64, 128}, kF32, sharding_of("rep=4,row=2", "row"));
  world.hold(4, world.box_of(1));
  EXPECT_EQ(accusations_of(world.without_source()), (Lines{"L3 d4 p2: [0:32,:] holds [32:64,:] of d1 d3 d5 d7"}));
}

TEST(Replicas, DigestsOfTheBytesReadServeWithoutAPassOverMemory) {
  World world({64, 128}, kF32, sharding_of("rep=4,row=2", "row"));
  world.set_as_read();
  VerifyOptions options;
  options.device = false;
  expect_silent(world.verify(options));
  world.of(3).as_read->lanes[0] ^= 1;
  EXPECT_EQ(accusations_of(world.verify(options)), (Lines{"L3 d3 p1: [32:64,:]"}));
}

TEST(Verify, CancelStopsIt) {
  World world = rows_world();
  CancelToken cancel;
  cancel.request();
  VerifyOptions options;
  options.cancel = &cancel;
  EXPECT_THROW(world.verify(options), Interrupted);
}

TEST(Verify, ErrorsOfTheSourceAreErrors) {
  World world = rows_world();
  VerifyOptions options;
  options.read = [](const Box&, std::span<std::byte>) { throw data_error("'x.npy': is truncated"); };
  EXPECT_THROW(world.verify(options), Error);
}

TEST(Verify, CountsBytesAndProgress) {
  World world = rows_world();
  ProgressMeter progress({}, "verify", 0);
  VerifyOptions options;
  options.read = world.reader();
  options.progress = &progress;
  const Verdict verdict = world.verify(options);
  EXPECT_EQ(progress.done_bytes(), 64 * 6 * 4);
  EXPECT_EQ(verdict.bytes_verified, 64 * 6 * 4);
}

// ---- random shardings, random faults ----

// covers: sharding R5, sharding R30
TEST(Verify, RandomFaultsOnRandomShardingsAreAllFoundAndNothingElse) {
  const char* const specs[] = {"x,y", "x+y", "-,y+x", "y", "-,x", "", "y,x"};
  const DType types[] = {dtypes::kBFloat16, dtypes::kFloat8E4M3FN, kF32, dtypes::kComplex128, dtypes::kBool};
  std::mt19937_64 random(77);
  for (int round = 0; round < 200; ++round) {
    Ids ids = iota(8);
    std::shuffle(ids.begin(), ids.end(), random);
    const Sharding sharding = sharding_of("x=2,y=4", specs[random() % 7], 2, ids, Uneven::ceil);
    const Shape shape{1 + static_cast<std::int64_t>(random() % 40), 1 + static_cast<std::int64_t>(random() % 40)};
    World world(shape, types[random() % 5], sharding);
    if (random() % 2 == 0) world.set_as_read();
    expect_silent(world.with_source());
    std::vector<std::int64_t> damaged;
    for (HeldShard& held : world.held()) {
      if (held.data.nbytes() == 0 || random() % 3 != 0) continue;
      held.data.data()[random() % static_cast<std::uint64_t>(held.data.nbytes())] ^=
          static_cast<std::byte>(1U << (random() % 8));
      damaged.push_back(held.shard.device.id);
    }
    std::vector<std::int64_t> accused;
    for (const Accusation& a : world.with_source().accusations) accused.push_back(a.device.id);
    ASSERT_EQ(accused, damaged) << "round " << round;
  }
}

}  // namespace
}  // namespace loadstone
