#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace loadstone {

/// How far a stage is. total_bytes is 0 where it is not known.
struct ProgressUpdate {
  std::string stage;  ///< "discover", "load", "verify", "digest", "write"
  std::int64_t done_bytes = 0;
  std::int64_t total_bytes = 0;
  double seconds = 0;  ///< since the stage began
};

/// Called at most about ten times a second and once at the end, from any worker, never from two at once.
using ProgressFn = std::function<void(const ProgressUpdate&)>;

/// Counts bytes from many threads and calls the function now and then. Does nothing without a function.
class ProgressMeter {
 public:
  ProgressMeter(ProgressFn fn, std::string stage, std::int64_t total_bytes)
      : fn_(std::move(fn)), stage_(std::move(stage)), total_(total_bytes), start_(Clock::now()) {}

  void add(std::int64_t bytes) {
    const std::int64_t done = done_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (fn_) report(done, false);
  }
  void finish() {
    if (fn_) report(done_.load(), true);
  }
  std::int64_t done_bytes() const { return done_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double kInterval = 0.1;  // seconds

  void report(std::int64_t done, bool last) {
    if (last) {
      mutex_.lock();
    } else if (!mutex_.try_lock()) {
      return;
    }
    const std::lock_guard<std::mutex> held(mutex_, std::adopt_lock);
    const double now = std::chrono::duration<double>(Clock::now() - start_).count();
    if (!last && now - last_ < kInterval) return;
    last_ = now;
    fn_(ProgressUpdate{stage_, done, total_, now});
  }

  ProgressFn fn_;
  std::string stage_;
  std::int64_t total_;
  Clock::time_point start_;
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
  double last_ = 0;
};

}  // namespace loadstone
