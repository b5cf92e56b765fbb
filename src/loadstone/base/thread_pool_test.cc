#include "loadstone/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

TEST(AvailableCores, FollowsTheAffinityMask) {
  EXPECT_GE(available_cores(), 1);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_LE(available_cores(), CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(ThreadPool().size(), available_cores());
}

TEST(ThreadPool, RunsEachWorkerOnceWithTheCallerAsWorkerZero) {
  const ThreadPool pool(5);
  std::vector<std::atomic<int>> runs(5);
  const auto caller = std::this_thread::get_id();
  pool.run_on_all([&](int worker) {
    ++runs[static_cast<std::size_t>(worker)];
    EXPECT_EQ(worker == 0, std::this_thread::get_id() == caller);
  });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(ThreadPool, WaitsForAllWorkersThenThrowsTheFirstException) {
  const ThreadPool pool(4);
  std::atomic<int> done{0};
  try {
    pool.run_on_all([&](int worker) {
      if (worker == 2) throw data_error("first");
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      ++done;
      if (worker == 3) throw data_error("second");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "first");
  }
  EXPECT_EQ(done, 3);
}

TEST(ThreadPool, DoesEachIndexOnce) {
  for (const int threads : {1, 3}) {
    const ThreadPool pool(threads);
    for (const std::int64_t n : {0, 1, 2, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
      pool.parallel_for(n, [&](std::int64_t i, int worker) {
        ++seen[static_cast<std::size_t>(i)];
        EXPECT_LT(worker, threads);
      });
      for (const auto& count : seen) EXPECT_EQ(count, 1);
    }
  }
}

// covers: loading E8
TEST(ThreadPool, StopsStartingAfterAnException) {
  const ThreadPool pool(2);
  std::atomic<int> started{0};
  EXPECT_THROW(pool.parallel_for(100000,
                                 [&](std::int64_t i, int) {
                                   ++started;
                                   if (i == 3) throw std::runtime_error("stop");
                                   std::this_thread::sleep_for(std::chrono::microseconds(200));
                                 }),
               std::runtime_error);
  EXPECT_LT(started, 10000);
}

// covers: loading E10
TEST(ThreadPool, ACancelRequestEndsInInterrupted) {
  const ThreadPool pool(3);
  const auto caller = std::this_thread::get_id();
  std::atomic<int> started{0};
  CancelToken cancel([&] {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    return started > 20;
  });
  EXPECT_THROW(pool.parallel_for(
                   1000000,
                   [&](std::int64_t, int) {
                     ++started;
                     std::this_thread::sleep_for(std::chrono::microseconds(100));
                   },
                   &cancel),
               Interrupted);
  EXPECT_LT(started, 100000);
}

}  // namespace
}  // namespace loadstone
