// Every fault of the catalogue that needs no engine and no file, injected into the golden examples.
#include <gtest/gtest.h>

#include "loadstone/verify/test_helpers.h"

namespace loadstone {
namespace {

using namespace test;  // NOLINT: short notation for tests

const Shape kImage{64, 128};
const DType kF32 = dtypes::kFloat32;

Sharding g1() {
  return sharding_of("x=8", "-,x");
}
Sharding g2() {
  return sharding_of("x=8", "-,x", 2, kFigure2);
}
Sharding g6() {
  return sharding_of("x=4,y=2", "x+y");
}
Sharding g7() {
  return sharding_of("x=4,y=2", "y+x");
}
Sharding g9() {
  return sharding_of("rep=4,row=2", "row");
}
Sharding g11() {
  return sharding_of("batch=8", "batch");
}
Sharding g12() {
  return sharding_of("replicas=4,model=2", "replicas", 4);
}
Sharding g13() {
  return sharding_of("replicas=4,model=2", "replicas", 2, kFigure10);
}

std::string hint_of(const Verdict& verdict) {
  return verdict.hints.size() == 1 ? verdict.hints[0] : cat(verdict.hints.size(), " hints");
}

const Accusation& only(const Verdict& verdict) {
  EXPECT_EQ(verdict.accusations.size(), 1U) << to_string(verdict);
  static const Accusation none;
  return verdict.accusations.empty() ? none : verdict.accusations[0];
}

/// Exchanges the bytes of two devices, not their buffers (which L0 would notice by their places).
void swap_bytes(World& world, std::int64_t a, std::int64_t b) {
  const std::span<std::byte> bytes = world.of(a).data.bytes();
  std::swap_ranges(bytes.begin(), bytes.end(), world.of(b).data.data());
}

// covers: faults F1, sharding R5, sharding R30
TEST(Faults, F1ExchangedBuffersNameBothOwners) {
  World world(kImage, kF32, g1());
  world.hold(1, world.box_of(2));
  world.hold(2, world.box_of(1));
  const Lines expected{"L2 d1 p0: [:,16:32] holds [:,32:48] of d2", "L2 d2 p1: [:,32:48] holds [:,16:32] of d1"};
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), expected);
  EXPECT_FALSE(verdict.ok());
  const Accusation& a = verdict.accusations[0];
  EXPECT_EQ(a.first_index, (Dims{0, 16}));
  EXPECT_EQ(a.byte_offset, 0);
  EXPECT_EQ(to_string(a),
            cat("L2 device: 'w': device 1 (cpu:1, process 0), replica 0: expected [:, 16:32], holds [:, 32:48], which "
                "belongs to device 2 (cpu:2, process 1); first difference at index (0, 16), byte 0: expected ",
                a.expected_bits, ", found ", a.found_bits));

  world.set_as_read();
  EXPECT_EQ(accusations_of(world.with_source()), expected) << "against the bytes as read";
  EXPECT_EQ(accusations_of(world.without_source()), expected) << "by digests alone";
}

// covers: faults F2
TEST(Faults, F2AxesInTheOtherOrder) {
  World world(kImage, kF32, g6());
  world.load_as(g7());
  const Lines expected{"L2 d1 p0: [8:16,:] holds [32:40,:] of d4",  "L2 d2 p1: [16:24,:] holds [8:16,:] of d1",
                       "L2 d3 p1: [24:32,:] holds [40:48,:] of d5", "L2 d4 p2: [32:40,:] holds [16:24,:] of d2",
                       "L2 d5 p2: [40:48,:] holds [48:56,:] of d6", "L2 d6 p3: [48:56,:] holds [24:32,:] of d3"};
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), expected);
  EXPECT_EQ(hint_of(verdict), "the data lie as P(('y', 'x')) would place them, the sharding says P(('x', 'y'))");
}

// covers: faults F3
TEST(Faults, F3DevicesSortedById) {
  World world(kImage, kF32, g2());
  world.load_as(g1());
  const Verdict verdict = world.with_source();
  Lines found = accusations_of(verdict);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Lines{"L2 d0 p0: [:,64:80] holds [:,0:16] of d6", "L2 d1 p0: [:,112:128] holds [:,16:32] of d2",
                          "L2 d2 p1: [:,16:32] holds [:,32:48] of d3", "L2 d3 p1: [:,32:48] holds [:,48:64] of d4",
                          "L2 d4 p2: [:,48:64] holds [:,64:80] of d0", "L2 d5 p2: [:,96:112] holds [:,80:96] of d7",
                          "L2 d6 p3: [:,0:16] holds [:,96:112] of d5", "L2 d7 p3: [:,80:96] holds [:,112:128] of d1"}));
  EXPECT_EQ(hint_of(verdict).substr(0, 30), "mesh order is not id order: th");
}

// covers: faults F4, sharding R23, sharding R34, sharding R35
TEST(Faults, F4OneProcessSwapsItsBatches) {
  World world({64, 3}, kF32, g13());
  swap_bytes(world, 4, 5);
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict),
            (Lines{"L2 d4 p2: [0:16,:] holds [32:48,:] of d1 d5", "L2 d5 p2: [32:48,:] holds [0:16,:] of d0 d4"}));
  EXPECT_EQ(verdict.accusations[0].counterpart->id, 0);
  EXPECT_EQ(verdict.accusations[0].replica_id, 1);
  EXPECT_EQ(verdict.accusations[1].counterpart->id, 1);
  EXPECT_FALSE(verdict.levels[3].ok);
  EXPECT_EQ(verdict.levels[3].note, "4 boxes with replicas, 2 differ");
}

// covers: faults F4, sharding R24, sharding G13
TEST(Faults, F4WithoutASourceThePairsAreNamed) {
  World world({64, 3}, kF32, g13());
  swap_bytes(world, 4, 5);
  const Verdict verdict = world.without_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L3 d0 p0: [0:16,:] or d4 p2", "L3 d1 p0: [32:48,:] or d5 p2"}));
  EXPECT_FALSE(verdict.accusations[0].culprit_known);
  EXPECT_EQ(verdict.accusations[0].detail,
            "device 0 holds the same bytes as device 5; device 4 holds the same bytes as device 1");
  EXPECT_EQ(verdict.accusations[1].detail,
            "device 1 holds the same bytes as device 4; device 5 holds the same bytes as device 0");
  EXPECT_EQ(verdict.accusations[0].first_index, (Dims{0, 0}));
  EXPECT_TRUE(verdict.hints.empty());
}

// covers: faults F5, sharding R21, sharding R33
TEST(Faults, F5SecondCopyPermutedInsideAProcess) {
  World world({32, 3}, kF32, g12());
  swap_bytes(world, 1, 3);
  EXPECT_EQ(accusations_of(world.with_source()),
            (Lines{"L2 d1 p0: [0:8,:] holds [8:16,:] of d2 d3", "L2 d3 p0: [8:16,:] holds [0:8,:] of d0 d1"}));
  const Verdict blind = world.without_source();
  EXPECT_EQ(accusations_of(blind), (Lines{"L3 d0 p0: [0:8,:] or d1 p0", "L3 d2 p0: [8:16,:] or d3 p0"}));
  EXPECT_EQ(blind.accusations[0].detail,
            "device 0 holds the same bytes as device 3; device 1 holds the same bytes as device 2");
}

// covers: faults F6
TEST(Faults, F6EveryProcessReadsTheFirstShard) {
  World world({64, 3}, kF32, g11());
  for (const std::int64_t id : {2, 4, 6}) world.hold(id, world.box_of(0));
  for (const std::int64_t id : {3, 5, 7}) world.hold(id, world.box_of(1));
  EXPECT_EQ(accusations_of(world.with_source()),
            (Lines{"L2 d2 p1: [16:24,:] holds [0:8,:] of d0", "L2 d3 p1: [24:32,:] holds [8:16,:] of d1",
                   "L2 d4 p2: [32:40,:] holds [0:8,:] of d0", "L2 d5 p2: [40:48,:] holds [8:16,:] of d1",
                   "L2 d6 p3: [48:56,:] holds [0:8,:] of d0", "L2 d7 p3: [56:64,:] holds [8:16,:] of d1"}));
}

// covers: faults F7, sharding R25
TEST(Faults, F7ProcessIndexInsteadOfGroupRank) {
  World world({64, 3}, kF32, g13());
  for (HeldShard& held : world.held()) {
    const Bytes own = random_bytes(held.data.nbytes(), 100 + static_cast<std::uint64_t>(held.shard.device.id));
    std::memcpy(held.data.data(), own.data(), own.size());
  }
  const Verdict verdict = world.without_source();
  Lines found = accusations_of(verdict);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (Lines{"L3 d0 p0: [0:16,:] or d4 p2", "L3 d1 p0: [32:48,:] or d5 p2", "L3 d2 p1: [16:32,:] or d6 p3",
                          "L3 d3 p1: [48:64,:] or d7 p3"}));
  EXPECT_EQ(hint_of(verdict),
            "use group rank of 2, not process index of 4: processes of one load group hold different bytes");
}

// covers: faults F8
TEST(Faults, F8AShardOfZeros) {
  World world(kImage, kF32, g1());
  std::memset(world.of(5).data.data(), 0, static_cast<std::size_t>(world.of(5).data.nbytes()));
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L2 d5 p2: [:,80:96] all zero"}));
  EXPECT_NE(to_string(only(verdict)).find("expected [:, 80:96], holds all zero; first difference at index (0, 80)"),
            std::string::npos);
  world.set_as_read();
  EXPECT_EQ(accusations_of(world.without_source()), (Lines{"L2 d5 p2: [:,80:96] all zero"}));
}

// covers: faults F8
TEST(Faults, F8ZerosAreRightWhereTheSourceIsZero) {
  World world(kImage, kF32, g1());
  std::fill(world.source().begin(), world.source().end(), std::byte{0});
  world.load();
  expect_silent(world.with_source());
}

// covers: faults F9
TEST(Faults, F9OneBitAgainstThreeReplicas) {
  World world(kImage, kF32, g9());
  constexpr std::int64_t kByte = (5 * 128 + 7) * 4 + 2;
  world.of(6).data.data()[kByte] ^= std::byte{0x10};
  for (const bool source : {true, false}) {
    const Verdict verdict = source ? world.with_source() : world.without_source();
    EXPECT_EQ(accusations_of(verdict), (Lines{cat(source ? "L2" : "L3", " d6 p3: [0:32,:]")}));
    const Accusation& a = only(verdict);
    EXPECT_EQ(a.first_index, (Dims{5, 7}));
    EXPECT_EQ(a.byte_offset, kByte - 2);
    EXPECT_EQ(a.replica_id, 3);
    EXPECT_EQ(a.counterpart->id, 0);
    EXPECT_EQ(a.detail, "devices 0, 2, 4 agree");
    EXPECT_TRUE(a.culprit_known);
    EXPECT_FALSE(verdict.levels[3].ok);
  }
}

// covers: faults F10
TEST(Faults, F10ElementsExchangedInsideAShard) {
  World world(kImage, kF32, g9());
  auto* data = world.of(3).data.data();
  std::swap_ranges(data + 40, data + 44, data + 4000);
  for (const bool source : {true, false}) {
    const Verdict verdict = source ? world.with_source() : world.without_source();
    EXPECT_EQ(accusations_of(verdict), (Lines{cat(source ? "L2" : "L3", " d3 p1: [32:64,:]")}));
    EXPECT_EQ(only(verdict).holds, Accusation::Holds::unknown);
    EXPECT_EQ(only(verdict).first_index, (Dims{32, 10}));
    EXPECT_EQ(only(verdict).byte_offset, 40);
  }
}

// covers: faults F11
TEST(Faults, F11SignOfZeroAndPayloadOfNaN) {
  World world(kImage, kF32, g9());
  const auto set = [](std::byte* at, std::uint32_t bits) { std::memcpy(at, &bits, 4); };
  set(world.source().data(), 0x00000000);
  set(world.source().data() + 4, 0x7fc00001);
  world.load();
  expect_silent(world.with_source());
  expect_silent(world.without_source());

  set(world.of(2).data.data(), 0x80000000);
  set(world.of(4).data.data() + 4, 0x7fc00002);
  for (const bool source : {true, false}) {
    const Verdict verdict = source ? world.with_source() : world.without_source();
    ASSERT_EQ(verdict.accusations.size(), 2U);
    const Accusation& zero = verdict.accusations[0];
    EXPECT_EQ(zero.device.id, 2);
    EXPECT_EQ(zero.expected_bits, "0x00000000");
    EXPECT_EQ(zero.found_bits, "0x80000000");
    const Accusation& nan = verdict.accusations[1];
    EXPECT_EQ(nan.device.id, 4);
    EXPECT_EQ(nan.first_index, (Dims{0, 1}));
    EXPECT_EQ(nan.expected_bits, "0x7fc00001");
    EXPECT_EQ(nan.found_bits, "0x7fc00002");
  }
}

// covers: faults F12, sharding R30
TEST(Faults, F12TheCallersMemoryMayChangeAfterTheLoad) {
  World world(kImage, kF32, g1());
  world.set_as_read();
  expect_silent(world.without_source());
  std::fill(world.source().begin(), world.source().end(), std::byte{0xaa});
  expect_silent(world.without_source());
}

// covers: faults F12
TEST(Faults, F12MemoryThatIsAliasedIsFoundWhenItChanges) {
  World world({64, 3}, kF32, g11());
  world.set_as_read();
  HeldShard& held = world.of(3);
  auto aliased = std::make_shared<Memory>(world.source().data() + 24 * 12, 96, held.shard.device.place, false,
                                          [](std::byte*, std::int64_t) {});
  held.data = View(aliased, 0, Layout(Shape{8, 3}), kF32);
  expect_silent(world.without_source());
  world.source()[24 * 12] ^= std::byte{1};
  EXPECT_EQ(accusations_of(world.without_source()), (Lines{"L2 d3 p1: [24:32,:]"}));
}

// covers: faults F13
TEST(Faults, F13WrongDtypeOfTheSameSize) {
  World world(kImage, kF32, g1());
  HeldShard& held = world.of(3);
  held.data = View(held.data.memory(), 0, held.data.layout(), dtypes::kInt32);
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict), (Lines{"L0 d3 p1: [:,48:64] dtype: expected float32, found int32"}));
  EXPECT_EQ(to_string(only(verdict)),
            "L0 structure: 'w': device 3 (cpu:3, process 1), replica 0: expected [:, 48:64]; dtype: expected float32, "
            "found int32");
  EXPECT_FALSE(verdict.levels[0].ok);
  EXPECT_TRUE(verdict.levels[2].ok);
}

// covers: faults F16
TEST(Faults, F16BufferOnAnotherDevice) {
  World world(kImage, kF32, g1());
  std::vector<Device> devices = g1().devices();
  for (Device& device : devices) device.place.kind = PlaceKind::cuda;
  const Sharding asked(Mesh({"x"}, {8}, devices), parse_spec("-,x"));
  for (HeldShard& held : world.held()) {
    const Device& device = devices[static_cast<std::size_t>(held.shard.position)];
    if (device.id == 5) continue;
    // Stands for memory of a GPU: an address the host must never look at.
    auto fake = std::make_shared<Memory>(reinterpret_cast<std::byte*>(64), held.data.nbytes(), device.place, false,
                                         [](std::byte*, std::int64_t) {});
    held.data = View(fake, 0, held.data.layout(), kF32);
  }
  VerifyOptions options;
  options.read = world.reader();
  const Verdict verdict = verify_array("w", kF32, kImage, asked, world.held(), options);
  EXPECT_EQ(accusations_of(verdict), (Lines{"L0 d5 p2: [:,80:96] device: expected cuda:5, found cpu:5"}));
  EXPECT_EQ(verdict.levels[2].note,
            "1 shard against the source, 7 shards in memory that cannot be read here and not looked at");
}

// covers: faults F20
TEST(Faults, F20BothReplicasHoldAnotherBox) {
  World world({64, 3}, kF32, g13());
  world.hold(0, world.box_of(2));
  world.hold(4, world.box_of(2));
  const Verdict verdict = world.with_source();
  EXPECT_EQ(accusations_of(verdict),
            (Lines{"L2 d0 p0: [0:16,:] holds [16:32,:] of d2 d6", "L2 d4 p2: [0:16,:] holds [16:32,:] of d2 d6"}));
  EXPECT_TRUE(verdict.levels[3].ok) << "L3 is blind here";
  expect_silent(world.without_source());
}

// ---- what must stay silent ----

// covers: faults F11
TEST(Silence, IdenticalNaNsAndConstantData) {
  for (const std::byte fill : {std::byte{0}, std::byte{0xff}, std::byte{0x7f}}) {
    World world(kImage, kF32, g9());
    std::fill(world.source().begin(), world.source().end(), fill);
    world.load();
    expect_silent(world.with_source());
    expect_silent(world.without_source());
    swap_bytes(world, 0, 1);  // other boxes, equal bytes
    world.set_as_read();
    expect_silent(world.with_source());
  }
}

TEST(Silence, EmptyShardsAndProcessesWithoutDevices) {
  World world({5, 4}, kF32, sharding_of("x=8", "x", 2, {}, Uneven::ceil));
  EXPECT_TRUE(world.of(7).shard.box.empty());
  expect_silent(world.with_source());
  expect_silent(world.without_source());
  world.of(7).data = View();
  expect_silent(world.with_source());
  world.held().clear();
  VerifyOptions options;
  options.process = 9;
  const Verdict verdict = world.verify(options);
  expect_silent(verdict);
  EXPECT_EQ(verdict.levels[2].note, "nothing is held here");
}

TEST(Silence, EmptyArraysAndScalars) {
  World empty({0, 4}, kF32, sharding_of("x=2", "x"));
  expect_silent(empty.with_source());
  World scalar({}, kF32, sharding_of("x=2", ""));
  expect_silent(scalar.with_source());
  scalar.of(1).data.data()[3] ^= std::byte{0x80};
  EXPECT_EQ(accusations_of(scalar.with_source()), (Lines{"L2 d1 p0: []"}));
}

TEST(Silence, SpecsThatMeanTheSameOnDifferentProcesses) {
  World world(kImage, kF32, sharding_of("x=8", "x"));
  const Sharding longer = sharding_of("x=8", "x,-");
  VerifyOptions options;
  options.read = world.reader();
  expect_silent(verify_array("w", kF32, kImage, longer, world.held(), options));
}

TEST(Silence, ASecondVerifySaysTheSame) {
  World world(kImage, kF32, g2());
  Verdict first = world.with_source();
  Verdict second = world.with_source();
  expect_silent(first);
  first.seconds = second.seconds = 0;
  EXPECT_EQ(to_string(first), to_string(second));
}

}  // namespace
}  // namespace loadstone
