#include "loadstone/plan/choose.h"

#include <gtest/gtest.h>

#include "loadstone/base/error.h"
#include "loadstone/plan/plan_fixtures.h"

namespace loadstone {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

/// 64 MiB of rows on two cpu devices of one process.
Plan plan_with(std::optional<std::int64_t> budget, int threads = 4) {
  PlanOptions options;
  options.memory_budget = budget;
  options.threads = threads;
  const Sharding sharding(Mesh::of_cpus({"x"}, {2}), parse_spec("x"));
  return make_plan(testing::stack({32768, 32768}, {256}, dtypes::kFloat32), {{0, sharding}}, options);
}

// covers: loading E13
TEST(Budget, ChargesDestinationsAndOneWindowAThread) {
  const PlanTotals totals = plan_with({}).totals;
  EXPECT_EQ(totals.staging_bytes, 16 * kMiB);
  EXPECT_EQ(totals.peak_host_bytes, 80 * kMiB);
  EXPECT_EQ(plan_with(80 * kMiB).totals, totals);
}

// covers: loading E13
TEST(Budget, ShrinksWindowsAndThenThreadsBeforeItRefuses) {
  const Plan tight = plan_with(65 * kMiB);
  EXPECT_EQ(tight.options.window_bytes, 256 << 10);
  EXPECT_EQ(tight.options.threads, 4);
  EXPECT_EQ(tight.totals.peak_host_bytes, 65 * kMiB);
  EXPECT_EQ(tight.notes.at(0),
            "windows of 262,144 bytes instead of 4,194,304 bytes to stay within the memory budget of 68,157,440 bytes");
  const Plan tighter = plan_with(64 * kMiB + (130 << 10));
  EXPECT_EQ(tighter.options.threads, 2);
  EXPECT_EQ(tighter.options.window_bytes, 64 << 10);
  EXPECT_LE(tighter.totals.peak_host_bytes, 64 * kMiB + (130 << 10));
  EXPECT_EQ(tighter.totals.requests, 1024) << "windows of 64 KiB are more requests";
}

// covers: loading E13
TEST(Budget, IsASystemErrorWithBothNumbersAndTheParts) {
  try {
    plan_with(64 * kMiB);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::system);
    EXPECT_EQ(error.message(),
              "the plan needs more host memory than the memory budget allows: expected at most 67,108,864 bytes, found "
              "at least "
              "67,174,400 bytes = 67,108,864 bytes of destinations + 65,536 bytes of staging for 1 thread");
    EXPECT_EQ(error.facts().expected, "at most 67108864 bytes");
    EXPECT_EQ(error.facts().found, "67174400 bytes");
  }
  EXPECT_THROW(plan_with(0), Error);
}

TEST(Budget, SmallJobsNeedSmallStaging) {
  const Sharding sharding = Sharding::single();
  PlanOptions options;
  options.threads = 8;
  options.memory_budget = 9000;
  const Plan plan = make_plan(testing::one_file({1000}, dtypes::kInt8), {{0, sharding}}, options);
  EXPECT_EQ(plan.totals.staging_bytes, 8000);
  EXPECT_EQ(plan.totals.peak_host_bytes, 9000);
  EXPECT_EQ(plan.options.window_bytes, options.window_bytes) << "nothing to shrink";
}

TEST(Budget, CountsOtherMemoryApart) {
  std::vector<Device> devices(3);
  for (std::int32_t k = 0; k < 3; ++k) devices[static_cast<std::size_t>(k)].id = k;
  devices[0].place = {PlaceKind::cuda, 0};
  devices[1].place = {PlaceKind::cuda, 0};
  devices[2].place = {PlaceKind::pinned, 0};
  const Sharding sharding(Mesh({"x"}, {3}, devices), parse_spec("x"));
  PlanOptions options;
  options.memory_budget = 3100;
  const PlanTotals totals = make_plan(testing::one_file({3000}, dtypes::kInt8), {{0, sharding}}, options).totals;
  EXPECT_EQ(totals.peak_device_bytes, 2000) << "two shards on one device";
  EXPECT_EQ(totals.peak_host_bytes - totals.staging_bytes, 1000);
  EXPECT_LE(totals.peak_host_bytes, 3100);
}

}  // namespace
}  // namespace loadstone
