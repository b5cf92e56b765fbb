#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "loadstone/base/error.h"

namespace loadstone {

/// Asks running work to stop. Set from anywhere (a signal handler, too); workers look between windows, stop starting,
/// drain what is in flight and throw Interrupted on the calling thread.
class CancelToken {
 public:
  CancelToken() = default;
  /// `poll` runs on the calling thread only, between windows; returning true requests the stop. The Python binding
  /// looks for a pending KeyboardInterrupt there.
  explicit CancelToken(std::function<bool()> poll) : poll_(std::move(poll)) {}

  void request() noexcept { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const noexcept { return requested_.load(std::memory_order_relaxed); }
  /// For the calling thread: asks poll, too.
  bool poll() {
    if (!requested() && poll_ && poll_()) request();
    return requested();
  }

 private:
  std::atomic<bool> requested_{false};
  std::function<bool()> poll_;
};

inline void throw_if_requested(CancelToken* cancel) {
  if (cancel != nullptr && cancel->requested()) throw Interrupted();
}

}  // namespace loadstone
