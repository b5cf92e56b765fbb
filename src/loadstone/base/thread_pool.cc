#include "loadstone/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace loadstone {

namespace {

/// Cores granted by cgroup v2 (cpu.max) or v1 (cfs quota) at `dir`; 0 if there is no limit.
double quota_at(const std::string& dir) {
  {
    std::ifstream in(dir + "/cpu.max");
    std::string quota;
    double period = 0;
    if (in >> quota >> period && quota != "max" && period > 0) return std::atof(quota.c_str()) / period;
  }
  std::ifstream quota_in(dir + "/cpu.cfs_quota_us");
  std::ifstream period_in(dir + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_in >> quota && period_in >> period && quota > 0 && period > 0) return quota / period;
  return 0;
}

/// The tightest CPU quota on the way from this process's cgroup to the root; 0 if none.
double cgroup_quota() {
  double best = 0;
  const auto consider = [&best](double quota) {
    if (quota > 0 && (best == 0 || quota < best)) best = quota;
  };
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers.find("cpu") == std::string::npos) continue;
    const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (std::string path = line.substr(second + 1);;) {
      consider(quota_at(root + path));
      const std::size_t slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) break;
      path.resize(slash);
    }
    consider(quota_at(root));
  }
  return best;
}

}  // namespace

int available_cores() {
  int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  if (const double quota = cgroup_quota(); quota > 0) {
    cores = std::min(cores, std::max(1, static_cast<int>(std::ceil(quota))));
  }
  return cores;
}

ThreadPool::ThreadPool(int num_threads) : size_(num_threads > 0 ? num_threads : available_cores()) {}

void ThreadPool::run_on_all(const std::function<void(int)>& body) const {
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&](int worker) {
    try {
      body(worker);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size_));
  int started = 1;
  for (; started < size_; ++started) {
    try {
      threads.emplace_back(guarded, started);
    } catch (const std::exception&) {
      break;  // no more threads to be had: the ones we have do the work
    }
  }
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  // Workers that could not be started still get their turn: bodies may own work by worker number.
  for (int worker = started; worker < size_; ++worker) guarded(worker);
  if (first) std::rethrow_exception(first);
}

void ThreadPool::parallel_for(std::int64_t n, const std::function<void(std::int64_t, int)>& body,
                              CancelToken* cancel) const {
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> stop{false};
  const auto work = [&](int worker) {
    for (;;) {
      if (stop.load(std::memory_order_relaxed)) return;
      if (cancel != nullptr && (worker == 0 ? cancel->poll() : cancel->requested())) return;
      const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= n) return;
      try {
        body(i, worker);
      } catch (...) {
        stop.store(true, std::memory_order_relaxed);
        throw;
      }
    }
  };
  if (n == 1 || size_ == 1) {
    work(0);
  } else {
    run_on_all(work);
  }
  throw_if_requested(cancel);
}

}  // namespace loadstone
