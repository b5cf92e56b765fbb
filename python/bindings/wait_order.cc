#include <nanobind/stl/string.h>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_driver.h"
#include "loadstone/handover/wait.h"
#include "memory_view.h"

namespace loadstone::python {

namespace {

constexpr std::uintptr_t kPerThread = 2;

int ordinal_of(const View& view) {
  const Place place = view.place();
  return place.kind == PlaceKind::cuda || place.kind == PlaceKind::managed ? place.ordinal : -1;
}

std::string text_of(Order order) {
  return cat(order.kind == Order::Kind::stream ? "stream " : "event ", order.handle);
}

/// Somebody has to wait: can it be done from here?
void check_can_wait(const MemoryView& self) {
  check_order_thread(self);
  const PlaceKind kind = self.view.place().kind;
  const bool rocm = kind == PlaceKind::rocm || kind == PlaceKind::rocm_host;
  if (!rocm && cuda::driver() != nullptr) return;
  raise(PyExc_BufferError, cat("the bytes are pending on ", text_of(self.view.order()),
                               ", and without a CUDA driver nothing can be made to wait for it"));
}

}  // namespace

void check_order_thread(const MemoryView& self) {
  if (self.view.order() != Order{Order::Kind::stream, kPerThread}) return;
  if (self.thread == std::this_thread::get_id()) return;
  raise(PyExc_BufferError,
        "the bytes are pending on the per-thread default stream (2) of the thread that imported them, which this "
        "thread cannot name: import with stream=, or export on that thread");
}

void let_stream_wait(const MemoryView& self, std::int64_t stream) {
  const Order order = self.live().order();
  if (order.kind == Order::Kind::ready || stream == -1) return;
  const auto handle = static_cast<std::uintptr_t>(stream);
  if (order == Order{Order::Kind::stream, handle}) return check_order_thread(self);
  check_can_wait(self);
  make_stream_wait(handle, order, ordinal_of(self.view));
}

void wait_for_bytes(const MemoryView& self) {
  // A copy: another thread may release the view while this one waits.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const View view = self.live();
  if (view.order().kind == Order::Kind::ready) return;
  check_can_wait(self);
  const nb::gil_scoped_release released;
  wait_on_host(view.order(), ordinal_of(view));
}

View with_order(const View& view, Order order) {
  const std::int64_t offset = view.data() != nullptr ? view.data() - view.memory()->base() : 0;
  const View out(view.memory(), offset, view.layout(), view.dtype(), order);
  return view.readonly() ? out.as_readonly() : out;
}

}  // namespace loadstone::python
