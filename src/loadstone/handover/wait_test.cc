#include "loadstone/handover/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "tests/fakes/cuda_driver.h"

namespace loadstone {
namespace {

std::uintptr_t handle_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

/// Two streams; a writer that finishes when let, and a reader that notes whether the writer was done.
class Wait : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Options options;
    options.devices = 2;
    fake_cuda::reset(options);
    cuda::use_driver_for_tests(fake_cuda::table());
    fake_cuda::add_kernel("write", {}, [this](void**, unsigned, unsigned) {
      gate_.get_future().wait();
      written_ = true;
    });
    fake_cuda::add_kernel("read", {}, [this](void**, unsigned, unsigned) {
      read_after_write_ = written_.load();
      read_ = true;
    });
  }
  void TearDown() override {
    fake_cuda::reset();
    cuda::use_driver_for_tests(nullptr);
  }
  static void launch(const char* name, int device, std::uintptr_t stream) {
    const cuda::Scope scope(device);
    cuda::Function function = nullptr;
    cuda::Module module = nullptr;
    cuda::check(cuda::driver()->module_load_data(&module, nullptr), "load");
    cuda::check(cuda::driver()->module_get_function(&function, module, name), name);
    cuda::check(cuda::driver()->launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, reinterpret_cast<cuda::Stream>(stream),
                                              nullptr, nullptr),
                name);
  }
  /// Would a reader that nothing holds back have run by now?
  bool runs_early() const {
    for (int i = 0; i < 50 && !read_; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return read_;
  }
  void open_gate() { gate_.set_value(); }
  static void finish(int device, std::uintptr_t stream) {
    const cuda::Scope scope(device);
    cuda::check(cuda::driver()->stream_synchronize(reinterpret_cast<cuda::Stream>(stream)), "finish");
  }

  std::promise<void> gate_;
  std::atomic<bool> written_{false}, read_{false}, read_after_write_{false};
};

// covers: memory_view B6
TEST_F(Wait, AStreamRunsAfterAnother) {
  const cuda::OwnedStream writer(0), reader(0);
  launch("write", 0, handle_of(writer.get()));
  make_stream_wait(handle_of(reader.get()), Order{Order::Kind::stream, handle_of(writer.get())}, 0);
  launch("read", 0, handle_of(reader.get()));
  EXPECT_FALSE(runs_early());
  open_gate();
  finish(0, handle_of(reader.get()));
  EXPECT_TRUE(read_after_write_);
  EXPECT_EQ(fake_cuda::alive().events, 0);
}

// covers: memory_view B6
TEST_F(Wait, WithoutAWaitItDoesNot) {
  const cuda::OwnedStream writer(0), reader(0);
  launch("write", 0, handle_of(writer.get()));
  launch("read", 0, handle_of(reader.get()));
  finish(0, handle_of(reader.get()));
  EXPECT_FALSE(read_after_write_);
  open_gate();
}

// covers: memory_view B6
TEST_F(Wait, AStreamRunsAfterAnEvent) {
  const cuda::OwnedStream writer(0), reader(1);
  const cuda::OwnedEvent event(0);
  launch("write", 0, handle_of(writer.get()));
  {
    const cuda::Scope scope(0);
    EXPECT_EQ(cuda::driver()->event_record(event.get(), writer.get()), cuda::kSuccess);
  }
  make_stream_wait(handle_of(reader.get()), Order{Order::Kind::event, handle_of(event.get())}, 1);
  launch("read", 1, handle_of(reader.get()));
  EXPECT_FALSE(runs_early());
  open_gate();
  finish(1, handle_of(reader.get()));
  EXPECT_TRUE(read_after_write_);
}

// covers: memory_view B6, T3
TEST_F(Wait, TheDefaultStreamsAreThoseOfTheViewsGpu) {
  launch("write", 1, 1);
  const cuda::OwnedStream reader(1);
  const cuda::Scope current(0);
  make_stream_wait(handle_of(reader.get()), Order{Order::Kind::stream, 1}, 1);
  launch("read", 1, handle_of(reader.get()));
  EXPECT_FALSE(runs_early());
  cuda::Device device = -1;
  EXPECT_EQ(cuda::driver()->ctx_get_device(&device), cuda::kSuccess);
  EXPECT_EQ(device, 0);
  for (const fake_cuda::Call& call : fake_cuda::calls()) {
    // Record and wait are made here and now, on the view's GPU.
    if (call.name != "cuEventRecord" && call.name != "cuStreamWaitEvent") continue;
    EXPECT_EQ(call.current_device, 1);
    EXPECT_EQ(call.thread, std::hash<std::thread::id>{}(std::this_thread::get_id()));
  }
  open_gate();
  finish(1, handle_of(reader.get()));
  EXPECT_TRUE(read_after_write_);
}

// covers: memory_view B6
TEST_F(Wait, TheHostWaitsForStreamsAndEvents) {
  const cuda::OwnedStream writer(0);
  launch("write", 0, handle_of(writer.get()));
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    open_gate();
  });
  wait_on_host(Order{Order::Kind::stream, handle_of(writer.get())}, 0);
  EXPECT_TRUE(written_);
  later.join();
  const cuda::OwnedEvent event(0);
  wait_on_host(Order{Order::Kind::event, handle_of(event.get())}, -1);
  EXPECT_EQ(fake_cuda::count("cuEventSynchronize"), 1);
}

// covers: memory_view B6, B7, T2
TEST_F(Wait, NothingToWaitForMakesNoCall) {
  const auto before = fake_cuda::calls().size();
  make_stream_wait(7, Order{}, 0);
  make_stream_wait(7, Order{Order::Kind::stream, 7}, 0);
  wait_on_host(Order{}, 0);
  EXPECT_EQ(fake_cuda::calls().size(), before);
}

// covers: memory_view B6
TEST_F(Wait, AFailureIsToldAndNoEventStays) {
  const cuda::OwnedStream writer(0), reader(0);
  const Order order{Order::Kind::stream, handle_of(writer.get())};
  for (const char* name : {"cuEventCreate", "cuEventRecord", "cuStreamWaitEvent", "cuStreamGetCtx"}) {
    fake_cuda::fail(name, 1);
    EXPECT_THROW(make_stream_wait(handle_of(reader.get()), order, 0), Error) << name;
    EXPECT_EQ(fake_cuda::alive().events, 0) << name;
  }
  cuda::Context context = nullptr;
  cuda::driver()->ctx_get_current(&context);
  EXPECT_EQ(context, nullptr);
}

}  // namespace
}  // namespace loadstone
