#include "loadstone/handover/wait.h"

#include <optional>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/cuda_driver.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

constexpr std::uintptr_t kLastSentinel = 2;  // 1 and 2 name streams and are no addresses

const cuda::Driver& driver() {
  const cuda::Driver* const table = cuda::driver();
  if (table == nullptr) throw Error(ErrorKind::system, cat("cannot wait for a stream: ", cuda::driver_problem()));
  return *table;
}

cuda::Stream stream_of(std::uintptr_t handle) {
  return reinterpret_cast<cuda::Stream>(handle);
}

/// The context of a stream is current for a scope: events are recorded there, and a sentinel means its default stream.
class OnStream {
 public:
  OnStream(std::uintptr_t stream, int ordinal) {
    cuda::Context context = nullptr;
    if (stream > kLastSentinel) {
      cuda::check(driver().stream_get_ctx(stream_of(stream), &context), cat("find the GPU of stream ", stream));
      cuda::check(driver().ctx_push_current(context), cat("make the GPU of stream ", stream, " current"));
      pushed_ = true;
      return;
    }
    if (ordinal < 0) {
      driver().ctx_get_current(&context);
      if (context != nullptr) return;
    }
    scope_.emplace(ordinal < 0 ? 0 : ordinal);
  }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;
  ~OnStream() {
    cuda::Context popped = nullptr;
    if (pushed_) driver().ctx_pop_current(&popped);
  }

 private:
  bool pushed_ = false;
  std::optional<cuda::Scope> scope_;
};

/// An event at the end of what is queued on a stream, gone with the scope: the driver keeps it for who waits already.
class Mark {
 public:
  Mark(std::uintptr_t stream, int ordinal) : on_(stream, ordinal) {
    cuda::check(driver().event_create(&event_, cuda::kEventDisableTiming), "make an event");
    if (const cuda::Result result = driver().event_record(event_, stream_of(stream)); result != cuda::kSuccess) {
      driver().event_destroy(event_);
      cuda::check(result, cat("mark the work on stream ", stream));
    }
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark() { driver().event_destroy(event_); }
  cuda::Event get() const { return event_; }

 private:
  OnStream on_;
  cuda::Event event_ = nullptr;
};

void wait_for_event(std::uintptr_t stream, cuda::Event event, int ordinal) {
  const OnStream on(stream, ordinal);
  cuda::check(driver().stream_wait_event(stream_of(stream), event, 0), cat("let stream ", stream, " wait"));
}

}  // namespace

void make_stream_wait(std::uintptr_t stream, const Order& order, int ordinal) {
  switch (order.kind) {
    case Order::Kind::ready: return;
    case Order::Kind::event: return wait_for_event(stream, reinterpret_cast<cuda::Event>(order.handle), ordinal);
    case Order::Kind::stream: break;
  }
  if (order.handle == stream) return;
  const Mark mark(order.handle, ordinal);
  wait_for_event(stream, mark.get(), ordinal);
}

void wait_on_host(const Order& order, int ordinal) {
  if (order.kind == Order::Kind::ready) return;
  const bool by_event = order.kind == Order::Kind::event;
  const OnStream on(by_event ? 0 : order.handle, ordinal);
  cuda::check(by_event ? driver().event_synchronize(reinterpret_cast<cuda::Event>(order.handle))
                       : driver().stream_synchronize(stream_of(order.handle)),
              cat("wait for ", by_event ? "event " : "stream ", order.handle));
}

}  // namespace loadstone
