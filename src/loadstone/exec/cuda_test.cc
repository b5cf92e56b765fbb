// The executor for GPUs on the fake driver: every rule but speed. On a machine with a GPU the tests named Gpu run
// there.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/exec/cuda_memory.h"
#include "loadstone/exec/executor.h"
#include "loadstone/exec/pinned_slots.h"
#include "tests/fakes/cuda_driver.h"
#include "tests/fakes/failing_source.h"
#include "tests/fakes/random_loads.h"

namespace loadstone {
namespace {

using fakes::add_grid;
using fakes::add_stack;
using fakes::expected_bytes;
using fakes::MadeArrays;
using fakes::MadeGrid;
using fakes::options_of;
using fakes::plan_of;
using fakes::random_arrays;
using fakes::random_sharding;

Sharding columns_on_gpu(std::int64_t parts, int gpu = 0) {
  std::vector<Device> devices(static_cast<std::size_t>(parts));
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i].id = static_cast<std::int32_t>(i);
    devices[i].place = {PlaceKind::cuda, gpu};
    devices[i].part = static_cast<std::int32_t>(i);
  }
  return Sharding(Mesh({"x"}, {parts}, devices), PartitionSpec({{}, {"x"}}), Uneven::ceil);
}

std::vector<std::byte> host_bytes(const View& view) {
  std::vector<std::byte> out(static_cast<std::size_t>(view.nbytes()));
  if (view.place().kind == PlaceKind::cuda) {
    cuda::copy_to_host(out.data(), view.data(), view.nbytes(), view.place().ordinal);
  } else {
    std::copy_n(view.data(), out.size(), out.data());
  }
  return out;
}

void expect_right(const MadeArrays& made, const Plan& plan, const Placement& placement) {
  ASSERT_EQ(placement.shards.size(), plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const PlacedShard& shard = placement.shards[i];
    ASSERT_EQ(shard.data.place(), shard.shard.device.place);
    const std::int64_t array = plan.arrays[static_cast<std::size_t>(shard.array)].catalog_index;
    ASSERT_EQ(host_bytes(shard.data), expected_bytes(made, array, shard.shard.box))
        << "slot " << i << " " << to_string(shard.shard.box);
  }
}

class CudaExecutor : public testing::Test {
 protected:
  void start(const fake_cuda::Options& options = {}) {
    fake_cuda::reset(options);
    cuda::use_driver_for_tests(fake_cuda::table());
  }
  void SetUp() override { start(); }
  void TearDown() override { cuda::use_driver_for_tests(nullptr); }

  /// What a process keeps after its first load: slots, pools and their streams.
  static fake_cuda::Alive kept(const MadeArrays& made, const Plan& plan, const ExecOptions& exec) {
    executor_for(plan)->run(made.catalog, plan, exec);
    return settled();
  }
  /// After frees that are queued have been done.
  static fake_cuda::Alive settled() {
    allocate_device(1, 0);
    for (int i = 0; i < 200; ++i) {
      cuda::release_idle();
      const fake_cuda::Alive now = fake_cuda::alive();
      if (now.allocations == 0) return now;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return fake_cuda::alive();
  }
};

void place_random_loads(std::uint32_t seeds, int gpus) {
  constexpr std::array kWindows{std::int64_t{48}, std::int64_t{256}, std::int64_t{64 << 10}};
  constexpr std::array kStrategies{Strategy::per_process, Strategy::per_device, Strategy::automatic};
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const auto made = random_arrays(seed);
    std::mt19937& random = made->random;
    std::vector<ArrayRequest> requests;
    for (std::size_t a = 0; a < made->catalog.arrays.size(); ++a) {
      const int ndim = made->catalog.arrays[a].shape.size();
      Sharding sharding = random_sharding(random, ndim);
      std::vector<Device> devices = sharding.devices();
      for (std::size_t i = 0; i < devices.size(); ++i) {
        if (seed % 3 == 0 && i % 3 == 2) continue;
        devices[i].place = {PlaceKind::cuda, static_cast<std::int32_t>(i) % gpus};
        devices[i].part = static_cast<std::int32_t>(i);
      }
      if (sharding.devices().size() == 3 && sharding.mesh().axis_names().size() == 1) {
        sharding = Sharding::row_tiles(devices, 1);
      } else {
        sharding = Sharding(Mesh(sharding.mesh().axis_names(), sharding.mesh().axis_sizes(), devices), sharding.spec(),
                            Uneven::ceil);
      }
      requests.push_back({static_cast<std::int64_t>(a), sharding});
    }
    PlanOptions options;
    options.strategy = kStrategies[random() % kStrategies.size()];
    options.window_bytes = kWindows[random() % kWindows.size()];
    options.threads = 1 + static_cast<int>(random() % 3);
    if (random() % 3 == 0) options.cost.request_seconds = 0;
    const Plan plan = plan_of(*made, requests, options);
    const ThreadPool pool(options.threads);
    const Placement placement = executor_for(plan)->run(made->catalog, plan, options_of(*made, pool));
    expect_right(*made, plan, placement);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// covers: loading R7, R8, R10, R14
TEST_F(CudaExecutor, PlacesTheSameBytesForAnyCatalogShardingAndWindow) {
  start({.devices = 2, .delay_us = 30});
  place_random_loads(150, 2);
  EXPECT_GT(fake_cuda::count("cuLaunchKernel"), 100);
}

// covers: loading R7
TEST_F(CudaExecutor, WithoutKernelsTheHostScattersAndSwaps) {
  start({.devices = 2, .refuse_module = true});
  place_random_loads(100, 2);
  EXPECT_EQ(fake_cuda::count("cuLaunchKernel"), 0);
  EXPECT_NE(cuda::kernels_problem(0).find("refuses the kernels"), std::string::npos);
}

// covers: loading E12
TEST_F(CudaExecutor, WithoutPageLockedMemoryOrPoolsItStillLoads) {
  start({.pinned_limit = 0, .pools = false});
  place_random_loads(40, 1);
  EXPECT_EQ(fake_cuda::count("cuMemPoolCreate"), 0);
  start({.pinned_limit = 300 << 10});
  place_random_loads(20, 1);
}

TEST_F(CudaExecutor, EachByteIsReadOnceForColumnsOfOneGpu) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}, {3}, {50}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(8)}});
  const ThreadPool pool(2);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  EXPECT_EQ(placement.stats.bytes_read, 153 * 64 * 4);
}

// covers: loading E11
TEST_F(CudaExecutor, ComparesWhatIsNeededWithWhatIsFreeBeforeItStarts) {
  start({.devices = 2, .memory = 10000});
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(8, 1)}});
  const ThreadPool pool(1);
  try {
    executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::system);
    EXPECT_EQ(error.message(), "cuda:1 (Fake GPU): the shards need 25600 bytes, of 10000 bytes 10000 are free");
    EXPECT_EQ(error.facts().expected, "25600 bytes");
  }
  EXPECT_TRUE(made.sources.opens().empty());
  EXPECT_EQ(fake_cuda::alive().allocations, 0);
}

TEST_F(CudaExecutor, AGpuThatIsNotThereIsNamed) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(2, 7)}});
  const ThreadPool pool(1);
  try {
    executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cuda:7 cannot be used: there is one GPU, cuda:0");
  }
}

/// Plain, strided, swapped, encoded and absent pieces in one load.
std::unique_ptr<MadeArrays> some_of_everything() {
  auto made = std::make_unique<MadeArrays>(3);
  add_stack(*made, "w", dtypes::kFloat32, {16}, {{20}, {10, ElementOrder::f}, {10, ElementOrder::c, ByteOrder::big}});
  MadeGrid grid;
  grid.chunk = {4, 4};
  grid.encoded = true;
  grid.absent_of_8 = 2;
  add_grid(*made, "z", dtypes::kFloat64, {8}, {12}, grid);
  return made;
}

// covers: loading E1, E8, E11
TEST_F(CudaExecutor, AnyFailingCallEndsInOneErrorAndLeavesNothing) {
  const auto made = some_of_everything();
  PlanOptions options;
  options.window_bytes = 512;
  options.threads = 2;
  const Plan plan = plan_of(*made, {{0, columns_on_gpu(4)}, {1, columns_on_gpu(2)}}, options);
  const ThreadPool pool(2);
  const ExecOptions exec = options_of(*made, pool);
  const fake_cuda::Alive before = kept(*made, plan, exec);
  ASSERT_EQ(before.allocations, 0) << before.text();
  int failed = 0;
  for (const char* name :
       {"cuMemAllocFromPoolAsync", "cuMemHostAlloc", "cuStreamCreate", "cuEventCreate", "cuEventRecord",
        "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuEventSynchronize", "cuStreamSynchronize", "cuMemGetInfo"}) {
    for (std::int64_t n = 1; n < 200; ++n) {
      SCOPED_TRACE(cat(name, " call ", n));
      const std::int64_t calls = fake_cuda::count(name);
      fake_cuda::fail(name, n);
      bool threw = false;
      try {
        const Placement placement = executor_for(plan)->run(made->catalog, plan, exec);
        expect_right(*made, plan, placement);
      } catch (const Error& error) {
        threw = true;
        ++failed;
        EXPECT_EQ(error.kind(), ErrorKind::system) << error.message();
        EXPECT_NE(error.message().find("cuda:0"), std::string::npos) << error.message();
      }
      const bool reached = fake_cuda::count(name) - calls >= n;
      fake_cuda::fail(name, n - (fake_cuda::count(name) - calls), 0);  // not in a later round
      const fake_cuda::Alive now = settled();
      ASSERT_EQ(now.allocations, 0) << now.text();
      ASSERT_EQ(now.streams, before.streams) << now.text();
      ASSERT_EQ(now.events, before.events) << now.text();
      ASSERT_EQ(made->sources.open_now(), 0);
      if (!reached && !threw) break;
    }
  }
  EXPECT_GT(failed, 50);
}

// covers: loading E2
TEST_F(CudaExecutor, ALostGpuIsAnErrorThatNamesIt) {
  const auto made = some_of_everything();
  const Plan plan = plan_of(*made, {{0, columns_on_gpu(4)}, {1, columns_on_gpu(2)}});
  const ThreadPool pool(2);
  for (int after = 1; after < 4; ++after) {
    start({.lost_after = after});
    try {
      executor_for(plan)->run(made->catalog, plan, options_of(*made, pool));
      ADD_FAILURE() << "lost after " << after << " copies";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::system);
      EXPECT_NE(error.message().find("cuda:0"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find("CUDA_ERROR_LAUNCH_FAILED (719)"), std::string::npos) << error.message();
    }
  }
}

TEST_F(CudaExecutor, AFailingReadFreesTheDevice) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}, {3}, {50}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(8)}});
  const ThreadPool pool(2);
  fakes::FailingSources failing(made.sources);
  failing.fail_read(2, EIO, true);
  ExecOptions exec = options_of(made, pool);
  exec.sources = &failing;
  EXPECT_THROW(executor_for(plan)->run(made.catalog, plan, exec), Error);
  EXPECT_EQ(settled().allocations, 0);
}

TEST_F(CudaExecutor, OfTwoLoadsAtOnceOneMayFail) {
  const auto good = some_of_everything();
  const auto bad = some_of_everything();
  start({.delay_us = 100});
  PlanOptions options;
  options.window_bytes = 256;
  const Plan plan = plan_of(*good, {{0, columns_on_gpu(4)}, {1, columns_on_gpu(2)}}, options);
  const ThreadPool pool(2);
  fakes::FailingSources failing(bad->sources);
  failing.fail_read(5, EIO, true);
  std::thread other([&] {
    ExecOptions exec = options_of(*bad, pool);
    exec.sources = &failing;
    EXPECT_THROW(executor_for(plan)->run(bad->catalog, plan, exec), Error);
  });
  const Placement placement = executor_for(plan)->run(good->catalog, plan, options_of(*good, pool));
  expect_right(*good, plan, placement);
  other.join();
}

TEST_F(CudaExecutor, SlotsAreLockedOnceAndKept) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}, {3}, {50}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(8)}});
  const ThreadPool pool(1);
  executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  const std::int64_t locked = PinnedSlots::shared().bytes();
  const std::int64_t calls = fake_cuda::count("cuMemHostAlloc");
  EXPECT_EQ(locked, 2 * plan.options.window_bytes);
  executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  EXPECT_EQ(fake_cuda::count("cuMemHostAlloc"), calls);
  EXPECT_EQ(PinnedSlots::shared().release_idle(), locked);
  EXPECT_EQ(PinnedSlots::shared().bytes(), 0);
  EXPECT_EQ(fake_cuda::alive().pinned, 0);
}

// covers: loading E11
TEST_F(CudaExecutor, SlotsStayIdleWhenTheGpuDoesNotAnswer) {
  { const PinnedSlots::Lease lease = PinnedSlots::shared().take(0, 2, 4096); }
  fake_cuda::fail("cuCtxPushCurrent", 1);
  EXPECT_THROW(PinnedSlots::shared().take(0, 2, 4096), Error);
  EXPECT_EQ(PinnedSlots::shared().release_idle(), 2 * 4096);
  EXPECT_EQ(fake_cuda::alive().pinned, 0);
}

// covers: memory_view B13
TEST_F(CudaExecutor, TheCallersContextStaysCurrent) {
  start({.devices = 2});
  const cuda::Driver& driver = *cuda::driver();
  const cuda::Context mine = cuda::primary_context(1);
  driver.ctx_push_current(mine);
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {64}, {{100}});
  const Plan plan = plan_of(made, {{0, columns_on_gpu(2, 0)}});
  const ThreadPool pool(1);
  executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  cuda::Context now = nullptr;
  driver.ctx_get_current(&now);
  EXPECT_EQ(now, mine);
  driver.ctx_pop_current(&now);
}

/// On the GPU of this machine.
class GpuExecutor : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::driver() == nullptr) GTEST_SKIP() << cuda::driver_problem();
    if (!cuda::kernels_problem(0).empty()) GTEST_SKIP() << cuda::kernels_problem(0);
  }
};

TEST_F(GpuExecutor, SmallRandomLoadsAreRight) {
  place_random_loads(60, 1);
}

TEST_F(GpuExecutor, LargeStridedSwappedAndTransposedLoadsAreRight) {
  MadeArrays made;
  add_stack(made, "c", dtypes::kFloat32, {4096}, {{1000}, {7}, {500}});
  add_stack(made, "f", dtypes::kFloat32, {1024}, {{2000, ElementOrder::f}, {333, ElementOrder::f, ByteOrder::big}});
  add_stack(made, "b", dtypes::kFloat64, {500}, {{1000, ElementOrder::c, ByteOrder::big}});
  add_stack(made, "thin", dtypes::kUInt8, {24}, {{300000}});
  const ThreadPool pool(4);
  const Plan plan =
      plan_of(made, {{0, columns_on_gpu(8)}, {1, columns_on_gpu(8)}, {2, columns_on_gpu(4)}, {3, columns_on_gpu(8)}});
  expect_right(made, plan, executor_for(plan)->run(made.catalog, plan, options_of(made, pool)));
}

}  // namespace
}  // namespace loadstone
