#include "loadstone/exec/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_driver.h"
#include "loadstone/base/error.h"
#include "tests/fakes/failing_source.h"
#include "tests/fakes/made_arrays.h"
#include "tests/fakes/random_loads.h"
#include "tests/fakes/slow_source.h"

namespace loadstone {
namespace {

using fakes::add_grid;
using fakes::add_stack;
using fakes::expected_bytes;
using fakes::MadeArrays;
using fakes::MadeFile;
using fakes::MadeGrid;
using fakes::options_of;
using fakes::plan_of;
using fakes::random_arrays;
using fakes::random_sharding;
using fakes::rows_over;

struct Job {
  Plan plan;
  ExecOptions options;
};

void expect_right(const MadeArrays& made, const Plan& plan, const Placement& placement) {
  ASSERT_EQ(placement.shards.size(), plan.slots.size());
  for (std::size_t i = 0; i < plan.slots.size(); ++i) {
    const PlacedShard& shard = placement.shards[i];
    ASSERT_EQ(shard.shard, plan.slots[i].shard);
    ASSERT_EQ(shard.data.shape(), shard.shard.box.shape());
    const std::span<const std::byte> got = shard.data.bytes();
    const std::int64_t array = plan.arrays[static_cast<std::size_t>(shard.array)].catalog_index;
    const std::vector<std::byte> want = expected_bytes(made, array, shard.shard.box);
    ASSERT_EQ(got.size(), want.size());
    const auto bits = static_cast<unsigned>(shard.shard.box.num_elems() * shard.data.dtype().elem_bits() % 8);
    const std::size_t whole = got.size() - (bits == 0 ? 0 : 1);  // the last bits of packed types are padding
    if (bits != 0) {
      ASSERT_EQ(got.back() << static_cast<int>(8 - bits), want.back() << static_cast<int>(8 - bits));
    }
    ASSERT_TRUE(std::equal(want.begin(), want.begin() + static_cast<std::ptrdiff_t>(whole), got.begin()))
        << "slot " << i << " " << to_string(shard.shard.box) << " of "
        << to_string(plan.arrays[static_cast<std::size_t>(shard.array)].shape);
  }
}

/// Buffers filled with a pattern before the load; keeps what it gave to see whether it was freed.
class PoisonedBuffers final : public BufferProvider {
 public:
  explicit PoisonedBuffers(std::byte poison) : poison_(poison) {}
  View buffer(const Plan& plan, std::int32_t slot) override {
    const View view = inner_->buffer(plan, slot);
    std::fill_n(view.data(), view.nbytes(), poison_);
    given_.push_back(view.memory());
    return view;
  }
  bool all_freed() const {
    return std::all_of(given_.begin(), given_.end(), [](const auto& memory) { return memory.expired(); });
  }
  std::size_t given() const { return given_.size(); }

 private:
  std::unique_ptr<BufferProvider> inner_ = host_buffers();
  std::byte poison_;
  std::vector<std::weak_ptr<Memory>> given_;
};

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return internal_error("no error");
}

// covers: loading R1, R3, R5, R10, R14
TEST(Executors, ThreadsPlaceTheSameBytesAsSerialForAnyCatalogShardingAndWindow) {
  static constexpr std::array<std::int64_t, 6> kWindows{1, 24, 100, 513, 4096, 4 << 20};
  static constexpr std::array<Strategy, 4> kStrategies{Strategy::automatic, Strategy::global, Strategy::per_device,
                                                       Strategy::per_process};
  for (std::uint32_t seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const auto made = random_arrays(seed);
    std::mt19937& random = made->random;
    std::vector<ArrayRequest> requests;
    for (std::size_t a = 0; a < made->catalog.arrays.size(); ++a) {
      const int ndim = made->catalog.arrays[a].shape.size();
      requests.push_back({static_cast<std::int64_t>(a), random_sharding(random, ndim)});
    }
    PlanOptions options;
    options.strategy = kStrategies[random() % kStrategies.size()];
    options.window_bytes = kWindows[random() % kWindows.size()];
    options.over_decompose = 1 + static_cast<std::int64_t>(random() % 3);
    options.threads = 1 + static_cast<int>(random() % 4);
    if (random() % 3 == 0) options.cost.request_seconds = 0;  // never reads over gaps
    const Plan plan = plan_of(*made, requests, options);
    const ThreadPool pool(options.threads);
    const ExecOptions exec = options_of(*made, pool);
    const Placement serial = make_serial_executor()->run(made->catalog, plan, exec);
    expect_right(*made, plan, serial);
    const Placement threads = executor_for(plan)->run(made->catalog, plan, exec);
    expect_right(*made, plan, threads);
    if (HasFatalFailure()) return;
    EXPECT_EQ(threads.stats.decoded_pieces, serial.stats.decoded_pieces);
    EXPECT_EQ(made->sources.open_now(), 0);
  }
}

// covers: loading E1, E2, E8, R11
TEST(Executors, AnyFailingReadEndsInOneErrorAndHandsOutNothing) {
  for (const bool short_read : {false, true}) {
    for (const int threads : {1, 3}) {
      MadeArrays made(7);
      add_stack(made, "w", dtypes::kFloat32, {8}, {{5}, {3, ElementOrder::f}, {9, ElementOrder::c, ByteOrder::big}});
      PlanOptions options;
      options.window_bytes = 64;
      options.threads = threads;
      const Plan plan = plan_of(made, {{0, rows_over(3)}}, options);
      const ThreadPool pool(threads);
      std::int64_t reads = 0;
      for (std::int64_t n = 0; n <= reads; ++n) {
        SCOPED_TRACE(cat("read ", n));
        fakes::FailingSources failing(made.sources);
        if (n > 0 && short_read) failing.short_read(n);
        if (n > 0 && !short_read) failing.fail_read(n, EIO);
        PoisonedBuffers buffers(std::byte{0xEE});
        ExecOptions exec = options_of(made, pool);
        exec.sources = &failing;
        exec.buffers = &buffers;
        if (n == 0) {
          expect_right(made, plan, executor_for(plan)->run(made.catalog, plan, exec));
          reads = failing.reads();
          ASSERT_GT(reads, 8);
          continue;
        }
        const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
        EXPECT_EQ(error.kind(), short_read ? ErrorKind::data : ErrorKind::system);
        EXPECT_EQ(error.facts().os_error, short_read ? 0 : EIO);
        EXPECT_NE(error.facts().file.find("w_"), std::string::npos) << error.message();
        EXPECT_NE(error.message().find(error.facts().file), std::string::npos) << error.message();
        if (threads == 1) {
          EXPECT_EQ(failing.reads_after_failure(), 0) << "nothing is started after a failure";
        }
        EXPECT_TRUE(buffers.all_freed());
        EXPECT_EQ(made.sources.open_now(), 0);
      }
    }
  }
}

// covers: loading E1, E6
TEST(Executors, TheErrorSaysHowManyOtherWorkersFailed) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, std::vector<MadeFile>(40, MadeFile{4}));
  PlanOptions options;
  options.threads = 4;
  const Plan plan = plan_of(made, {{0, rows_over(1)}}, options);
  const ThreadPool pool(4);
  fakes::SlowSources slow(made.sources, std::chrono::milliseconds(30));
  fakes::FailingSources failing(slow);
  failing.fail_read(1, EIO, true);
  ExecOptions exec = options_of(made, pool);
  exec.sources = &failing;
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  // Workers that were reading when the first failed also fail; which ones depends on the machine.
  EXPECT_NE(error.message().find("cannot read: Input/output error"), std::string::npos) << error.message();
  if (error.message().ends_with(")")) {
    EXPECT_NE(error.message().find(" (and "), std::string::npos);
    EXPECT_NE(error.message().find(" more failure"), std::string::npos);
  }
}

// covers: loading R12, E6
TEST(Executors, AFileCutAfterDiscoveryGivesAnErrorThatNamesFileOffsetWantedAndGot) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat64, {16}, {{50}, {50}});
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const ThreadPool pool(2);
  fakes::FailingSources failing(made.sources);
  failing.cut(1, 100);
  ExecOptions exec = options_of(made, pool);
  exec.sources = &failing;
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("the file ends inside a read at offset"), std::string::npos) << error.message();
  EXPECT_NE(error.message().find("expected 6400 bytes, found"), std::string::npos) << error.message();
}

// covers: loading R13
TEST(Executors, AFileThatWasReplacedIsRefusedByName) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kInt16, {16}, {{5}, {5}});
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const ThreadPool pool(2);
  const std::int64_t size = made.catalog.files.stamp(1).size_bytes;
  made.sources.put("w_1", made.noise(size), 99);
  Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, options_of(made, pool)); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_EQ(error.message(), "'w_1': modified since it was inspected: expected mtime 1 ns, found mtime 99 ns");
  made.sources.put("w_1", made.noise(size - 2));
  error = error_of([&] { executor_for(plan)->run(made.catalog, plan, options_of(made, pool)); });
  EXPECT_EQ(error.message(),
            cat("'w_1': changed since it was inspected: expected ", size, " bytes, found ", size - 2, " bytes"));
  EXPECT_EQ(error.facts().file, "w_1");
  made.sources.remove("w_1");
  error = error_of([&] { executor_for(plan)->run(made.catalog, plan, options_of(made, pool)); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_EQ(error.facts().os_error, ENOENT);
}

// covers: loading D19
TEST(Executors, NineHundredFilesLoadWithEightOpenAtOnce) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, std::vector<MadeFile>(900, MadeFile{2}));
  PlanOptions options;
  options.threads = 4;
  const Plan plan = plan_of(made, {{0, rows_over(4)}}, options);
  const ThreadPool pool(4);
  ExecOptions exec = options_of(made, pool);
  exec.max_open_files = 8;
  made.sources.limit_open_files(8);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, exec);
  expect_right(made, plan, placement);
  EXPECT_LE(made.sources.most_open(), 8);
  EXPECT_EQ(placement.stats.opens, 900);
}

// covers: loading R8
TEST(Executors, EveryByteIsWrittenAndNoneIsZeroedFirst) {
  for (std::uint32_t seed = 300; seed < 340; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    const auto made = random_arrays(seed);
    const int ndim = made->catalog.arrays[0].shape.size();
    PlanOptions options;
    options.window_bytes = 200;
    const Plan plan = plan_of(*made, {{0, random_sharding(made->random, ndim)}}, options);
    const ThreadPool pool(2);
    for (const std::byte poison : {std::byte{0x00}, std::byte{0xA5}}) {
      PoisonedBuffers buffers(poison);
      ExecOptions exec = options_of(*made, pool);
      exec.buffers = &buffers;
      // A slot's bytes outside what has arrived so far still hold the poison: nothing touched them before.
      std::mutex mutex;
      std::map<std::int32_t, std::vector<int>> times;
      exec.tap = [&](int, const ArrivedBytes& arrived) {
        const std::lock_guard<std::mutex> lock(mutex);
        const Slot& slot = plan.slots[static_cast<std::size_t>(arrived.slot)];
        std::vector<int>& seen = times[arrived.slot];
        seen.resize(static_cast<std::size_t>(slot.shard.box.num_elems()));
        Dims index = arrived.box.begin;
        for (std::int64_t i = 0; i < arrived.box.num_elems(); ++i) {
          ++seen[static_cast<std::size_t>(linear_index(index, slot.shard.box))];
          for (int d = index.size() - 1; d >= 0; --d) {
            if (++index[d] < arrived.box.end[d]) break;
            index[d] = arrived.box.begin[d];
          }
        }
      };
      expect_right(*made, plan, executor_for(plan)->run(made->catalog, plan, exec));
      for (std::size_t s = 0; s < plan.slots.size(); ++s) {
        const std::vector<int>& seen = times[static_cast<std::int32_t>(s)];
        ASSERT_EQ(static_cast<std::int64_t>(seen.size()), plan.slots[s].shard.box.num_elems());
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; })) << "each byte exactly once";
      }
    }
  }
}

// covers: loading R8
TEST(Executors, BytesBeyondTheWindowsDoneSoFarKeepTheirPoison) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kUInt8, {64}, {{64}});
  std::fill(made.values[0].begin(), made.values[0].end(), std::byte{1});
  PlanOptions options;
  options.window_bytes = 64;
  const Plan plan = plan_of(made, {{0, rows_over(1)}}, options);
  const ThreadPool pool(1);
  PoisonedBuffers buffers(std::byte{0xA5});
  ExecOptions exec = options_of(made, pool);
  exec.buffers = &buffers;
  std::int64_t windows = 0;
  exec.tap = [&](int, const ArrivedBytes& arrived) {
    ++windows;
    const std::byte* next = arrived.data + 64;
    const std::int64_t left = (64 - arrived.box.end[0]) * 64;
    EXPECT_TRUE(std::all_of(next, next + left, [](std::byte b) { return b == std::byte{0xA5}; }));
  };
  executor_for(plan)->run(made.catalog, plan, exec);
  EXPECT_EQ(windows, 64);
}

// covers: loading R2, R6
TEST(Executors, ARowRangeCostsItsBytesAndNoHostCopy) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {32}, {{100}, {100}, {100}});
  const Sharding sharding(Mesh::simulated({"x"}, {3}, {0, 1, 2}, 1), PartitionSpec({{"x"}}));
  PlanOptions options;
  options.process = 1;
  const Plan plan = plan_of(made, {{0, sharding}}, options);
  const ThreadPool pool(2);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  EXPECT_EQ(placement.stats.bytes_read, 100 * 32 * 4);
  EXPECT_EQ(made.sources.bytes_read(), 100 * 32 * 4);
  EXPECT_EQ(made.sources.opens(), std::vector<std::string>{"w_1"});
  EXPECT_EQ(placement.stats.bytes_copied, 0) << "read straight into the destination";
  EXPECT_EQ(placement.stats.peak_staging_bytes, 0);
}

// covers: loading R16
TEST(Executors, AChunkThatSeveralBoxesNeedIsReadAndDecodedOnce) {
  MadeArrays made;
  MadeGrid grid;
  grid.chunk = {7, 16};
  grid.encoded = true;
  add_grid(made, "z", dtypes::kFloat32, {16}, {21}, grid);
  PlanOptions options;
  options.strategy = Strategy::per_process;
  const Plan plan = plan_of(made, {{0, rows_over(5)}}, options);
  const ThreadPool pool(3);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  EXPECT_EQ(placement.stats.decoded_pieces, 3);
  EXPECT_EQ(made.sources.reads().size(), 3U);

  options.strategy = Strategy::per_device;
  const Plan each = plan_of(made, {{0, rows_over(5)}}, options);
  const Placement paid = executor_for(each)->run(made.catalog, each, options_of(made, pool));
  expect_right(made, each, paid);
  EXPECT_GT(paid.stats.decoded_pieces, 3) << "one pipeline a device decodes shared chunks again";
}

TEST(Executors, ReplicasAreFilledFromOneRead) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {32}, {{30, ElementOrder::c, ByteOrder::big}, {30}});
  const Sharding sharding(Mesh::of_cpus({"x"}, {4}), PartitionSpec());
  PlanOptions options;
  options.strategy = Strategy::per_process;
  const Plan plan = plan_of(made, {{0, sharding}}, options);
  const ThreadPool pool(2);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  EXPECT_EQ(placement.stats.bytes_read, 60 * 32 * 4);
  EXPECT_EQ(placement.shards.size(), 4U);
}

// covers: loading R18
TEST(Executors, ResultsOutliveSourcesPlanAndCatalog) {
  std::vector<std::byte> want;
  Placement placement;
  {
    MadeArrays made;
    add_stack(made, "w", dtypes::kFloat32, {4}, {{20, ElementOrder::f}});
    want = made.values[0];
    const Plan plan = plan_of(made, {{0, rows_over(1)}});
    const ThreadPool pool(2);
    placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  }
  const std::span<const std::byte> got = placement.shards[0].data.bytes();
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end()));
}

// covers: loading R19
TEST(Executors, AUsersOwnReaderIsAFactoryAndADecoder) {
  class Counting final : public ByteSourceFactory {
   public:
    class Source final : public ByteSource {
     public:
      void read(std::int64_t offset, std::span<std::byte> dst) override {
        for (std::size_t i = 0; i < dst.size(); ++i) {
          dst[i] = static_cast<std::byte>((offset + static_cast<std::int64_t>(i)) % 251);
        }
      }
      FileStamp stamp() const override { return {1000, 5}; }
      std::string_view path() const override { return "counted"; }
    };
    std::unique_ptr<ByteSource> open(const std::string&) override { return std::make_unique<Source>(); }
  };
  Catalog catalog;
  ArrayEntry entry{"a", "own", dtypes::kUInt8, {30, 10}, Tiling({10}), {}, {}};
  entry.tiling.add_plain(30, catalog.files.add("counted", {1000, 5}), 100, ByteOrder::little, ElementOrder::c);
  catalog.arrays.push_back(entry);
  Counting sources;
  const ThreadPool pool(2);
  ExecOptions exec;
  exec.pool = &pool;
  exec.sources = &sources;
  const Plan plan = make_plan(catalog, {{0, rows_over(3)}}, {});
  const Placement placement = executor_for(plan)->run(catalog, plan, exec);
  for (const PlacedShard& shard : placement.shards) {
    std::int64_t at = 100 + shard.shard.box.begin[0] * 10;
    for (const std::byte b : shard.data.bytes()) ASSERT_EQ(b, static_cast<std::byte>(at++ % 251));
  }
}

// covers: loading E2
TEST(Executors, AnExceptionOfAUsersReaderBecomesAnError) {
  class Throwing final : public ByteSourceFactory {
   public:
    std::unique_ptr<ByteSource> open(const std::string&) override { throw std::runtime_error("no such bucket"); }
  };
  MadeArrays made;
  add_stack(made, "w", dtypes::kUInt8, {4}, {{4}});
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const ThreadPool pool(2);
  Throwing sources;
  ExecOptions exec = options_of(made, pool);
  exec.sources = &sources;
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_TRUE(error.message().starts_with("loading failed: no such bucket")) << error.message();
}

// covers: loading E10
TEST(Executors, CancellingStopsWithinASecondAndFreesTheBuffers) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, std::vector<MadeFile>(400, MadeFile{4}));
  PlanOptions options;
  options.threads = 3;
  const Plan plan = plan_of(made, {{0, rows_over(2)}}, options);
  const ThreadPool pool(3);
  fakes::SlowSources slow(made.sources, std::chrono::milliseconds(20));
  PoisonedBuffers buffers(std::byte{1});
  std::atomic<int> polls{0};
  const std::thread::id caller = std::this_thread::get_id();
  CancelToken cancel([&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return ++polls > 2;
  });
  ExecOptions exec = options_of(made, pool);
  exec.sources = &slow;
  exec.buffers = &buffers;
  exec.cancel = &cancel;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(executor_for(plan)->run(made.catalog, plan, exec), Interrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
  EXPECT_TRUE(buffers.all_freed());
  EXPECT_EQ(made.sources.open_now(), 0);
  EXPECT_LT(made.sources.reads().size(), 100U);
}

// covers: loading E3, R7, R9
TEST(Executors, WhatNeedsNoIoIsRefusedBeforeMemoryAndFilesAreTouched) {
  MadeArrays made;
  MadeGrid grid;
  grid.chunk = {4, 4};
  grid.encoded = true;
  add_grid(made, "z", dtypes::kFloat32, {4}, {8}, grid);
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const ThreadPool pool(2);
  PoisonedBuffers buffers(std::byte{1});
  ExecOptions exec = options_of(made, pool);
  exec.buffers = &buffers;
  exec.decode = nullptr;
  Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_NE(error.message().find("pieces of format 'xor' cannot be decoded"), std::string::npos);

  Plan wrong = plan;
  wrong.reads[0].targets[0].box.end[0] = 1000;
  exec.decode = fakes::xor_decode;
  error = error_of([&] { executor_for(plan)->run(made.catalog, wrong, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::internal);

  Plan device = plan;
  device.slots[1].shard.device.place = {PlaceKind::cuda, 0};
  error = error_of([&] { executor_for(device); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  if (cuda::driver() == nullptr) {
    EXPECT_EQ(error.message(),
              cat("device 1 (cuda:0, process 0): the executor 'cuda' cannot run here: ", cuda::driver_problem()));
  }
  error = error_of([&] { executor_for(plan)->run(made.catalog, device, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::system);
  EXPECT_EQ(buffers.given(), 0U);
  EXPECT_TRUE(made.sources.opens().empty());
}

TEST(Executors, RefuseABufferThatIsNotWhatWasAskedFor) {
  class Small final : public BufferProvider {
   public:
    View buffer(const Plan&, std::int32_t) override { return View::allocate({1}, dtypes::kUInt8); }
  };
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, {{4}});
  const Plan plan = plan_of(made, {{0, rows_over(1)}});
  const ThreadPool pool(1);
  Small buffers;
  ExecOptions exec = options_of(made, pool);
  exec.buffers = &buffers;
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  EXPECT_TRUE(made.sources.opens().empty());
}

// covers: loading R11, E9
TEST(Executors, PartialAndInterruptedCallsGiveTheSameBytes) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {16}, {{20}, {30, ElementOrder::f}, {7, ElementOrder::c, ByteOrder::big}});
  made.sources.read_in_small_calls(13);
  const Plan plan = plan_of(made, {{0, rows_over(3)}});
  const ThreadPool pool(2);
  expect_right(made, plan, executor_for(plan)->run(made.catalog, plan, options_of(made, pool)));
}

// covers: loading P13
TEST(Executors, EmptyArraysAndScalarsArePlaced) {
  MadeArrays made;
  add_stack(made, "e", dtypes::kFloat32, {4}, {{0}, {0}});
  fakes::add_scalar(made, "s", dtypes::kFloat64);
  const Sharding one = Sharding::single();
  const Plan plan = plan_of(made, {{0, rows_over(3)}, {1, one}});
  const ThreadPool pool(2);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  ASSERT_EQ(placement.shards.size(), 4U);
  EXPECT_EQ(placement.shards[0].data.shape(), (Shape{0, 4}));
  EXPECT_EQ(placement.shards[3].data.nbytes(), 8);
  expect_right(made, plan, make_serial_executor()->run(made.catalog, plan, options_of(made, pool)));
}

TEST(Executors, PackedTypesArePlacedInWholeBytes) {
  const DType int4{0, 4, 1};
  MadeArrays made;
  add_stack(made, "q", int4, {6}, {{20}});
  add_stack(made, "p", int4, {}, {{31}});
  const Sharding columns(Mesh::of_cpus({"x"}, {3}), PartitionSpec({{}, {"x"}}));
  for (const std::int64_t window : {1, 7, 4096}) {
    PlanOptions options;
    options.window_bytes = window;
    const Plan plan = plan_of(made, {{0, rows_over(4)}, {1, Sharding::single()}, {0, columns}}, options);
    const ThreadPool pool(2);
    expect_right(made, plan, executor_for(plan)->run(made.catalog, plan, options_of(made, pool)));
    expect_right(made, plan, make_serial_executor()->run(made.catalog, plan, options_of(made, pool)));
  }
}

TEST(Executors, AnAbsentChunkWithoutAFillValueIsAnError) {
  MadeArrays made;
  MadeGrid grid;
  grid.chunk = {2, 2};
  grid.absent_of_8 = 8;
  add_grid(made, "z", dtypes::kInt16, {4}, {4}, grid);
  const ThreadPool pool(2);
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  expect_right(made, plan, placement);
  EXPECT_EQ(placement.stats.absent_pieces, 4);
  EXPECT_TRUE(made.sources.opens().empty()) << "absent chunks read nothing";
  made.catalog.arrays[0].fill.clear();
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, options_of(made, pool)); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("is absent and the array has no fill value"), std::string::npos);
}

TEST(Executors, AnEncodedPieceThatCannotLieInItsFileIsRefusedBeforeMemoryIsTaken) {
  MadeArrays made;
  Catalog& catalog = made.catalog;
  ArrayEntry entry{"z", "made", dtypes::kUInt8, {4}, Tiling(), {{"xor", ""}}, {}};
  ChunkGrid grid;
  grid.chunk_shape = {4};
  grid.offsets = {10};
  grid.stored_bytes = {std::int64_t{1} << 60};
  const FileStamp stamp = made.sources.put("z", made.noise(100));
  entry.tiling.add_grid(4, catalog.files.add("z", stamp), grid, ByteOrder::little, ElementOrder::c, 0);
  catalog.arrays.push_back(entry);
  const Plan plan = plan_of(made, {{0, Sharding::single()}});
  const ThreadPool pool(1);
  const Error error = error_of([&] { executor_for(plan)->run(catalog, plan, options_of(made, pool)); });
  EXPECT_EQ(error.kind(), ErrorKind::data);
  EXPECT_NE(error.message().find("found a file of 100 bytes"), std::string::npos) << error.message();
}

TEST(Executors, ADecodersErrorNamesFilePieceAndArray) {
  MadeArrays made;
  MadeGrid grid;
  grid.chunk = {4, 4};
  grid.encoded = true;
  add_grid(made, "z", dtypes::kFloat32, {4}, {8}, grid);
  const ThreadPool pool(1);
  const Plan plan = plan_of(made, {{0, rows_over(1)}});
  ExecOptions exec = options_of(made, pool);
  exec.decode = [](const Encoding&, const Piece& piece, DType, std::span<const std::byte>, std::span<std::byte>) {
    if (piece.number == 1) throw data_error("bad checksum");
  };
  const Error error = error_of([&] { executor_for(plan)->run(made.catalog, plan, exec); });
  EXPECT_TRUE(error.message().starts_with("'z_0': piece 1 of array 'z' at offset ")) << error.message();
  EXPECT_TRUE(error.message().ends_with(": bad checksum")) << error.message();
  EXPECT_EQ(error.facts().file, "z_0");
}

TEST(Executors, StagingStaysWithinThePlan) {
  for (std::uint32_t seed = 400; seed < 460; ++seed) {
    const auto made = random_arrays(seed);
    PlanOptions options;
    options.window_bytes = 256;
    options.threads = 3;
    const int ndim = made->catalog.arrays[0].shape.size();
    const Plan plan = plan_of(*made, {{0, random_sharding(made->random, ndim)}}, options);
    const ThreadPool pool(3);
    const Placement placement = executor_for(plan)->run(made->catalog, plan, options_of(*made, pool));
    EXPECT_LE(placement.stats.peak_staging_bytes, plan.totals.staging_bytes) << "seed " << seed;
    EXPECT_LE(placement.stats.bytes_read, plan.totals.bytes_read) << "seed " << seed;
    EXPECT_EQ(placement.stats.bytes_read, made->sources.bytes_read());
    EXPECT_EQ(placement.stats.requests, static_cast<std::int64_t>(made->sources.reads().size()));
  }
}

TEST(Executors, CopiesBetweenSlotsFollowTheReads) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, {{12}});
  Plan plan = plan_of(made, {{0, Sharding(Mesh::of_cpus({"x"}, {2}), PartitionSpec())}});
  for (Read& read : plan.reads) read.targets.resize(1);
  plan.reads.resize(1);
  plan.copies.push_back({0, 1, {{0, 0}, {12, 2}}});
  plan.copies.push_back({0, 1, {{0, 2}, {12, 4}}});
  const ThreadPool pool(2);
  expect_right(made, plan, executor_for(plan)->run(made.catalog, plan, options_of(made, pool)));
  expect_right(made, plan, make_serial_executor()->run(made.catalog, plan, options_of(made, pool)));
}

// covers: loading E14
TEST(Executors, ProgressEndsAtTheBytesOfThePlanAndTheTraceNamesFiles) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, {{12}, {12, ElementOrder::f}});
  const Plan plan = plan_of(made, {{0, rows_over(2)}});
  const ThreadPool pool(2);
  ExecOptions exec = options_of(made, pool);
  std::vector<ProgressUpdate> updates;
  exec.progress = [&](const ProgressUpdate& update) { updates.push_back(update); };
  Trace trace;
  exec.trace = &trace;
  executor_for(plan)->run(made.catalog, plan, exec);
  ASSERT_FALSE(updates.empty());
  EXPECT_EQ(updates.back().stage, "load");
  EXPECT_EQ(updates.back().done_bytes, plan.totals.bytes_read);
  EXPECT_EQ(updates.back().total_bytes, plan.totals.bytes_read);
  const std::string json = trace.json();
  EXPECT_NE(json.find("\"name\":\"open\""), std::string::npos);
  EXPECT_NE(json.find("\"file\":\"w_1\""), std::string::npos);
  EXPECT_NE(json.find("\"name\":\"copy\""), std::string::npos);
}

TEST(Assemble, JoinsLocalShardsFromAnyReplica) {
  for (std::uint32_t seed = 500; seed < 540; ++seed) {
    const auto made = random_arrays(seed);
    const int ndim = made->catalog.arrays[0].shape.size();
    const Plan plan = plan_of(*made, {{0, random_sharding(made->random, ndim)}});
    const ThreadPool pool(1);
    const Placement placement = executor_for(plan)->run(made->catalog, plan, options_of(*made, pool));
    const View whole = assemble(placement, 0);
    EXPECT_EQ(whole.shape(), made->catalog.arrays[0].shape);
    const std::span<const std::byte> got = whole.bytes();
    EXPECT_TRUE(std::equal(got.begin(), got.end(), made->values[0].begin(), made->values[0].end()));
  }
}

TEST(Assemble, SaysWhatIsMissing) {
  MadeArrays made;
  add_stack(made, "w", dtypes::kFloat32, {4}, {{12}});
  const Sharding sharding(Mesh::simulated({"x"}, {3}, {0, 1, 2}, 1), PartitionSpec({{"x"}}));
  PlanOptions options;
  options.process = 1;
  const Plan plan = plan_of(made, {{0, sharding}}, options);
  const ThreadPool pool(1);
  const Placement placement = executor_for(plan)->run(made.catalog, plan, options_of(made, pool));
  const Error error = error_of([&] { assemble(placement, 0); });
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_EQ(error.message(),
            "array 'w' of shape (12, 4): the shards of process 1 do not cover it: [0:4, :] is missing");
  EXPECT_THROW(assemble(placement, 1), Error);
}

}  // namespace
}  // namespace loadstone
