#include "loadstone/array/check_place.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "loadstone/base/cuda_context.h"
#include "tests/fakes/cuda_driver.h"

namespace loadstone {
namespace {

constexpr Place kHost{};
constexpr Place kCuda0{PlaceKind::cuda, 0}, kCuda1{PlaceKind::cuda, 1};
constexpr Place kPinned{PlaceKind::pinned, 0}, kManaged{PlaceKind::managed, 0};

/// What a driver says of every address, for what the fake has no memory of.
struct Canned {
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -2;
  cuda::DevicePtr begin = 0;
  std::size_t bytes = 0;
  cuda::Result result = cuda::kSuccess;
};
Canned canned;

cuda::Result answer_canned(unsigned count, int* which, void** out, cuda::DevicePtr) {
  for (unsigned i = 0; i < count; ++i) {
    if (which[i] == cuda::kPointerMemoryType) std::memcpy(out[i], &canned.type, sizeof(canned.type));
    if (which[i] == cuda::kPointerIsManaged) std::memcpy(out[i], &canned.managed, sizeof(canned.managed));
    if (which[i] == cuda::kPointerDeviceOrdinal) std::memcpy(out[i], &canned.ordinal, sizeof(canned.ordinal));
    if (which[i] == cuda::kPointerRangeStart && canned.begin != 0)
      std::memcpy(out[i], &canned.begin, sizeof(canned.begin));
    if (which[i] == cuda::kPointerRangeSize && canned.begin != 0)
      std::memcpy(out[i], &canned.bytes, sizeof(canned.bytes));
  }
  return canned.result;
}

class CheckPlace : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::Options options;
    options.devices = 2;
    fake_cuda::reset(options);
    cuda::use_driver_for_tests(fake_cuda::table());
  }
  void TearDown() override {
    fake_cuda::reset();
    cuda::use_driver_for_tests(nullptr);
  }
  /// 100 elements of float32 on a GPU.
  std::byte* allocate(int device) {
    const cuda::Scope scope(device);
    cuda::DevicePtr pointer = 0;
    cuda::check(cuda::driver()->mem_alloc(&pointer, 400), "allocate");
    return reinterpret_cast<std::byte*>(pointer);
  }
  void answer(const Canned& what) {
    canned = what;
    table_ = *fake_cuda::table();
    table_.pointer_get_attributes = answer_canned;
    cuda::use_driver_for_tests(&table_);
  }
  cuda::Driver table_;
};

View view_at(std::byte* address, const Layout& layout, Place place = kCuda0) {
  const auto low = layout.min_offset() * 4;
  const auto bytes = (layout.max_offset() + 1) * 4 - low;
  return View(std::make_shared<Memory>(address + low, bytes, place, false, nullptr), -low, layout, dtypes::kFloat32);
}
View floats(std::byte* address, std::int64_t count = 100) {
  return view_at(address, Layout(Shape{count}));
}

// covers: memory_view B13, T39
TEST_F(CheckPlace, ThePointerIsAskedNotTheCurrentDevice) {
  std::byte* memory = allocate(1);
  const cuda::Scope current(0);
  const PlaceReport report = check_place(floats(memory), kCuda1);
  EXPECT_EQ(report.verdict, PlaceVerdict::ok) << report.reason;
  EXPECT_EQ(report.found, kCuda1);
  ASSERT_TRUE(report.range);
  EXPECT_EQ(report.range->begin, reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_EQ(report.range->bytes, 400U);
  EXPECT_EQ(report.extent.bytes, 400U);
  EXPECT_EQ(check_place(floats(memory), kUnclaimedCuda).found, kCuda1);

  const PlaceReport wrong = check_place(floats(memory), kCuda0);
  EXPECT_EQ(wrong.verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(wrong.reason, "the memory is said to be on cuda:0, the driver says cuda:1");
}

// covers: memory_view B13, B8, T30
TEST_F(CheckPlace, EveryByteMustLieInTheAllocation) {
  std::byte* memory = allocate(0);
  EXPECT_EQ(check_place(floats(memory + 4, 99), kCuda0).verdict, PlaceVerdict::ok);
  const PlaceReport past = check_place(floats(memory + 4, 100), kCuda0);
  EXPECT_EQ(past.verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(past.found, kCuda0);
  // Element 0 is the last in memory; the lowest address counts.
  const Layout reversed(Shape{100}, Dims{-1});
  const PlaceReport whole = check_place(view_at(memory + 396, reversed), kCuda0);
  EXPECT_EQ(whole.verdict, PlaceVerdict::ok) << whole.reason;
  EXPECT_EQ(whole.extent.begin, reinterpret_cast<std::uintptr_t>(memory));
  EXPECT_EQ(check_place(view_at(memory + 396, Layout(Shape{50}, Dims{-3})), kCuda0).verdict, PlaceVerdict::mismatch);
  // A stride of 0 reaches one element.
  EXPECT_EQ(check_place(view_at(memory + 396, Layout(Shape{1000}, Dims{0})), kCuda0).extent.bytes, 4U);
}

// covers: memory_view B13
TEST_F(CheckPlace, FreedAndUnknownMemoryIsNotOfAGpu) {
  std::byte* memory = allocate(0);
  const View view = floats(memory);
  {
    const cuda::Scope scope(0);
    cuda::check(cuda::driver()->mem_free(static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(memory))), "");
  }
  const PlaceReport freed = check_place(view, kCuda0);
  EXPECT_EQ(freed.verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(freed.found, kHost);
  EXPECT_FALSE(freed.range);
  EXPECT_NE(freed.reason.find("freed"), std::string::npos);
  const View host = View::allocate(Shape{10}, dtypes::kFloat32);
  EXPECT_EQ(check_place(host, kHost).verdict, PlaceVerdict::unchecked);  // agrees, but has no range
  EXPECT_EQ(check_place(host, kPinned).verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(check_place(host, kUnclaimedCuda).verdict, PlaceVerdict::unchecked);
}

// covers: memory_view B13
TEST_F(CheckPlace, PinnedMemoryAndHostMemoryPinnedInPart) {
  const View host = View::allocate(Shape{100}, dtypes::kFloat32);
  const cuda::Scope scope(1);
  ASSERT_EQ(cuda::driver()->mem_host_register(host.data(), 400, 0), cuda::kSuccess);
  EXPECT_EQ(check_place(host, kPinned).verdict, PlaceVerdict::ok);  // whatever device was current
  EXPECT_EQ(check_place(host, kHost).verdict, PlaceVerdict::ok);
  EXPECT_EQ(check_place(host, kCuda1).verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(check_place(host, kManaged).verdict, PlaceVerdict::mismatch);
  EXPECT_EQ(check_place(host, kUnclaimedCuda).verdict, PlaceVerdict::ok);
  ASSERT_EQ(cuda::driver()->mem_host_unregister(host.data()), cuda::kSuccess);
  ASSERT_EQ(cuda::driver()->mem_host_register(host.data(), 200, 0), cuda::kSuccess);
  EXPECT_EQ(check_place(host, kHost).verdict, PlaceVerdict::unchecked);
  EXPECT_EQ(check_place(host, kPinned).verdict, PlaceVerdict::mismatch);
  ASSERT_EQ(cuda::driver()->mem_host_unregister(host.data()), cuda::kSuccess);
}

// covers: memory_view B13
TEST_F(CheckPlace, ManagedMemoryAgreesWithThreeClaims) {
  const View view = View::allocate(Shape{10}, dtypes::kFloat32);
  const auto address = static_cast<cuda::DevicePtr>(reinterpret_cast<std::uintptr_t>(view.data()));
  answer({cuda::kMemoryDevice, 1, 1, address, 40});
  for (const Place claim : {kHost, kCuda0, kCuda1, kManaged}) {
    const PlaceReport report = check_place(view, claim);
    EXPECT_EQ(report.verdict, PlaceVerdict::ok) << to_string(claim) << ": " << report.reason;
    EXPECT_EQ(report.found, (Place{PlaceKind::managed, 1}));
  }
  EXPECT_EQ(check_place(view, kPinned).verdict, PlaceVerdict::mismatch);
}

// covers: memory_view B13
TEST_F(CheckPlace, WhatTheDriverDoesNotTellIsUnchecked) {
  const View view = View::allocate(Shape{10}, dtypes::kFloat32);
  answer({cuda::kMemoryHost, 0, 0, 0, 0});  // host pools begin at 0
  EXPECT_EQ(check_place(view, kPinned).verdict, PlaceVerdict::unchecked);
  EXPECT_EQ(check_place(view, kPinned).found, kPinned);
  answer({cuda::kMemoryArray, 0, 0, 1, 1});
  EXPECT_EQ(check_place(view, kCuda0).verdict, PlaceVerdict::unchecked);
  answer({0, 0, 0, 0, 0, cuda::kUnknown});
  EXPECT_EQ(check_place(view, kCuda0).verdict, PlaceVerdict::unchecked);
}

// covers: memory_view B12, T24
TEST_F(CheckPlace, EmptyViewsAndOtherDriversAreNotAsked) {
  const auto asked = fake_cuda::count("cuPointerGetAttributes");
  const View empty(std::make_shared<Memory>(nullptr, 0, kCuda0, false, nullptr), 0, Layout(Shape{0}), dtypes::kFloat32);
  EXPECT_EQ(check_place(empty, kCuda0).verdict, PlaceVerdict::unchecked);
  std::byte bytes[4];
  EXPECT_EQ(check_place(floats(bytes, 1), Place{PlaceKind::rocm, 0}).verdict, PlaceVerdict::unchecked);
  EXPECT_EQ(fake_cuda::count("cuPointerGetAttributes"), asked);
}

}  // namespace
}  // namespace loadstone
