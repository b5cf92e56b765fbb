#include "loadstone/array/view.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <limits>
#include <vector>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

ErrorKind kind_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::internal;
}

TEST(Memory, IsAlignedAndFreedOnceByTheLastUser) {
  for (const std::int64_t bytes : {1, 63, 64, 4095, 4 << 20, (4 << 20) + 1}) {
    const auto memory = Memory::allocate_host(bytes);
    EXPECT_EQ(memory->bytes(), bytes);
    const std::uintptr_t alignment = bytes >= (4 << 20) ? 2 << 20 : 64;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->base()) % alignment, 0U) << bytes;
    memory->base()[0] = std::byte{1};
    memory->base()[bytes - 1] = std::byte{2};
  }
  EXPECT_EQ(Memory::allocate_host(0)->base(), nullptr);
  int released = 0;
  std::array<std::byte, 8> bytes{};
  auto memory = std::make_shared<Memory>(bytes.data(), 8, Place{}, false, [&](std::byte* base, std::int64_t n) {
    EXPECT_EQ(base, bytes.data());
    EXPECT_EQ(n, 8);
    ++released;
  });
  View view(std::move(memory), 0, Layout(Shape{8}), dtypes::kUInt8);
  View part = view.subview({{2}, {4}});
  view = View();
  EXPECT_EQ(released, 0);
  part = View();
  EXPECT_EQ(released, 1);
}

TEST(Memory, SaysWhenThereIsNone) {
  try {
    Memory::allocate_host(std::int64_t{1} << 60, {PlaceKind::host, 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::system);
    EXPECT_NE(error.message().find("cpu:3: cannot allocate 1153 PB (1152921504606846976 bytes)"), std::string::npos)
        << error.message();
  }
  EXPECT_EQ(kind_of([] { Memory::allocate_host(kMax); }), ErrorKind::system);
}

TEST(View, WindowsShareTheMemory) {
  const View view = View::allocate({4, 6}, dtypes::kInt16);
  EXPECT_EQ(view.nbytes(), 48);
  EXPECT_EQ(view.bytes().size(), 48U);
  const View part = view.subview({{1, 2}, {3, 5}});
  EXPECT_EQ(part.shape(), (Shape{2, 3}));
  EXPECT_EQ(part.data(), view.data() + (6 + 2) * 2);
  EXPECT_FALSE(part.layout().contiguous());
  EXPECT_EQ(kind_of([&] { part.bytes(); }), ErrorKind::usage);
  EXPECT_EQ(part.subview({{1, 0}, {2, 3}}).data(), view.data() + (12 + 2) * 2);
  EXPECT_EQ(part.memory(), view.memory());
  EXPECT_TRUE(view.as_readonly().readonly());
  EXPECT_TRUE(view.as_readonly().subview({{0, 0}, {1, 1}}).readonly());
  EXPECT_FALSE(view.readonly());
}

TEST(View, HasNoAddressWithoutElements) {
  EXPECT_EQ(View().data(), nullptr);
  EXPECT_EQ(View::allocate({0, 5}, dtypes::kInt8).data(), nullptr);
  const View view = View::allocate({4, 6}, dtypes::kInt16);
  EXPECT_EQ(view.subview({{2, 3}, {2, 6}}).data(), nullptr);
  EXPECT_TRUE(view.subview({{4, 6}, {4, 6}}).bytes().empty());
  EXPECT_EQ(View::allocate({}, dtypes::kFloat64).nbytes(), 8);
}

TEST(View, NeverReachesOutsideItsMemory) {
  const auto memory = Memory::allocate_host(64);
  const auto make = [&](std::int64_t offset, const Layout& layout, DType dtype = dtypes::kFloat64) {
    return kind_of([&] { View(memory, offset, layout, dtype); });
  };
  EXPECT_NO_THROW(View(memory, 56, Layout({8}, {-1}), dtypes::kFloat64));
  EXPECT_NO_THROW(View(memory, 0, Layout(Shape{8}), dtypes::kFloat64));
  EXPECT_EQ(make(1, Layout(Shape{8})), ErrorKind::usage);
  EXPECT_EQ(make(48, Layout({8}, {-1})), ErrorKind::usage);
  EXPECT_EQ(make(-8, Layout(Shape{1})), ErrorKind::usage);
  EXPECT_EQ(make(kMax, Layout(Shape{2})), ErrorKind::usage);
  EXPECT_EQ(make(std::numeric_limits<std::int64_t>::min(), Layout({2}, {-1})), ErrorKind::usage);
  EXPECT_EQ(make(0, Layout({2}, {kMax / 2})), ErrorKind::usage) << "the byte offset passes 2^63-1";
  EXPECT_EQ(make(0, Layout({2}, {kMax})), ErrorKind::usage);
  EXPECT_EQ(make(0, Layout({2}, {-kMax})), ErrorKind::usage);
  const View view(memory, 0, Layout(Shape{8}), dtypes::kFloat64);
  EXPECT_EQ(kind_of([&] { view.subview({{0}, {9}}); }), ErrorKind::usage);
  EXPECT_EQ(kind_of([&] { view.subview({{-1}, {1}}); }), ErrorKind::usage);
  EXPECT_EQ(kind_of([&] { view.subview({{0, 0}, {1, 1}}); }), ErrorKind::usage);
}

TEST(View, PackedTypesAreNeverCutInsideAByte) {
  const DType int4{0, 4, 1};
  const View view = View::allocate({4, 6}, int4);
  EXPECT_EQ(view.nbytes(), 12);
  EXPECT_EQ(view.subview({{1, 0}, {3, 6}}).data(), view.data() + 3);
  EXPECT_EQ(kind_of([&] { view.subview({{0, 0}, {2, 3}}); }), ErrorKind::usage);
  EXPECT_EQ(kind_of([&] { view.subview({{0, 1}, {1, 3}}); }), ErrorKind::usage);
  EXPECT_EQ(kind_of([&] { View(view.memory(), 0, Layout({2, 2}, {3, 1}), int4); }), ErrorKind::usage);
}

}  // namespace
}  // namespace loadstone
