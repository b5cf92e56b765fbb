#pragma once

#include <cstdint>
#include <functional>

#include "loadstone/base/cancel.h"

namespace loadstone {

/// The cores this process may really use: the smaller of the affinity mask and the cgroup CPU quota, at least 1.
int available_cores();

/// A number of workers, handed to every stage that works in parallel. The caller is worker 0; the others are started
/// for one call and joined before it returns, so nothing runs between calls and a fork is always safe. When the system
/// refuses a thread, the call goes on with those it has.
class ThreadPool {
 public:
  /// 0 means available_cores().
  explicit ThreadPool(int num_threads = 0);

  int size() const { return size_; }

  /// Runs body(worker) once for each worker, worker in [0, size()), at the same time. Waits for all of them, then
  /// throws the first exception (in time) if there was one.
  void run_on_all(const std::function<void(int worker)>& body) const;

  /// Runs body(i, worker) for each i in [0, n), in ascending order of start. Stops starting after the first exception
  /// or when cancel is requested, waits for those that run, then throws (Interrupted for cancel).
  void parallel_for(std::int64_t n, const std::function<void(std::int64_t i, int worker)>& body,
                    CancelToken* cancel = nullptr) const;

 private:
  int size_;
};

}  // namespace loadstone
