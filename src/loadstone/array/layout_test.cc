#include "loadstone/array/layout.h"

#include <gtest/gtest.h>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

ErrorKind kind_of(const Shape& shape, const Dims& strides) {
  try {
    const Layout layout(shape, strides);
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << to_string(shape) << " was accepted";
  return ErrorKind::internal;
}

TEST(Layout, IsInCOrderByDefault) {
  const Layout layout(Shape{2, 3, 4});
  EXPECT_EQ(layout.strides(), (Dims{12, 4, 1}));
  EXPECT_TRUE(layout.contiguous());
  EXPECT_EQ(layout.max_offset(), 23);
  EXPECT_EQ(layout.offset({1, 2, 3}), 23);
  EXPECT_EQ(Layout().num_elems(), 1);
  EXPECT_TRUE(Layout().contiguous());
}

TEST(Layout, DimensionsOfOneNeverBreakContiguity) {
  EXPECT_TRUE(Layout({1, 3, 1}, {99, 1, -7}).contiguous());
  EXPECT_FALSE(Layout({2, 3}, {4, 1}).contiguous());
  EXPECT_FALSE(Layout({2, 3}, {1, 2}).contiguous());
  EXPECT_TRUE(Layout({2, 0}, {5, 5}).contiguous()) << "no elements";
}

TEST(Layout, StridesMayBeZeroOrNegative) {
  const Layout mirrored({3, 4}, {-4, -1});
  EXPECT_EQ(mirrored.min_offset(), -11);
  EXPECT_EQ(mirrored.max_offset(), 0);
  EXPECT_FALSE(mirrored.contiguous());
  const Layout repeated({3, 4}, {0, 1});
  EXPECT_EQ(repeated.max_offset(), 3);
  const Layout none({0, 4}, {-4, 1});
  EXPECT_EQ(none.min_offset(), 0);
  EXPECT_EQ(none.max_offset(), 0);
}

TEST(Layout, RefusesWhatCannotBe) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ(kind_of({2, 3}, {1}), ErrorKind::usage);
  EXPECT_EQ(kind_of({2, -3}, {1, 1}), ErrorKind::usage);
  EXPECT_EQ(kind_of({5}, {kHuge}), ErrorKind::usage);
  EXPECT_EQ(kind_of({2, 2, 2}, {kHuge, kHuge, 1}), ErrorKind::usage);
  EXPECT_EQ(kind_of({5}, {-kHuge}), ErrorKind::usage);
}

}  // namespace
}  // namespace loadstone
