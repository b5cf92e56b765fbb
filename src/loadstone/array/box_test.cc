#include "loadstone/array/box.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

TEST(Dims, KeepsValuesAcrossTheInlineLimit) {
  Dims dims;
  for (int i = 0; i < 20; ++i) dims.push_back(i * i);
  ASSERT_EQ(dims.size(), 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(dims[i], i * i);
  Dims copy = dims;
  dims.resize(3);
  EXPECT_EQ(dims, (Dims{0, 1, 4}));
  dims.resize(5);
  EXPECT_EQ(dims, (Dims{0, 1, 4, 0, 0})) << "new values are 0, also where old ones had been";
  Dims moved = std::move(copy);
  EXPECT_EQ(moved.size(), 20);
  EXPECT_EQ(moved.back(), 361);
  copy = Dims{7};
  EXPECT_EQ(copy, Dims{7});
  EXPECT_LT((Dims{1, 2}), (Dims{1, 3}));
  EXPECT_LT((Dims{1}), (Dims{1, 0}));
}

TEST(Dims, AMovedFromListIsEmptyAndUsable) {
  Dims big = Dims::filled(12, 4);
  const Dims taken = std::move(big);
  EXPECT_EQ(big.size(), 0);  // NOLINT(bugprone-use-after-move): that is what is tested
  big.push_back(3);
  EXPECT_EQ(big, Dims{3});
  EXPECT_EQ(taken, Dims::filled(12, 4));
}

TEST(Shape, CountsElementsWithoutOverflow) {
  EXPECT_EQ(num_elems({}), 1);
  EXPECT_EQ(num_elems({3, 4}), 12);
  EXPECT_EQ(num_elems({std::int64_t{1} << 40, 0, std::int64_t{1} << 40}), 0);
  EXPECT_THROW(num_elems({std::int64_t{1} << 40, std::int64_t{1} << 40}), Error);
  EXPECT_THROW(num_elems({3, -1}), Error);
  EXPECT_THROW(num_elems({0, -1}), Error);
}

TEST(Shape, PrintsAsPythonAndParses) {
  EXPECT_EQ(to_string(Dims{}), "()");
  EXPECT_EQ(to_string(Dims{3}), "(3,)");
  EXPECT_EQ(to_string(Dims{3, 4}), "(3, 4)");
  EXPECT_EQ(parse_shape("3,4", "--shape"), (Shape{3, 4}));
  EXPECT_EQ(parse_shape("", "--shape"), Shape{});
  for (const char* bad : {"3,", "-1", "a", "3,,4", "9223372036854775808"}) {
    EXPECT_THROW(parse_shape(bad, "--shape"), Error) << bad;
  }
}

TEST(Shape, StridesOfBothOrders) {
  EXPECT_EQ(c_strides({2, 3, 4}), (Dims{12, 4, 1}));
  EXPECT_EQ(f_strides({2, 3, 4}), (Dims{1, 2, 6}));
  EXPECT_EQ(c_strides({2, 0, 4}), (Dims{4, 4, 1})) << "extents of 0 count as 1";
  c_strides({0, std::int64_t{1} << 40, std::int64_t{1} << 40});  // no overflow without elements
}

TEST(Box, ExtentsAndEmptiness) {
  const Box box{{1, 2}, {4, 6}};
  EXPECT_EQ(box.shape(), (Shape{3, 4}));
  EXPECT_EQ(box.num_elems(), 12);
  EXPECT_FALSE(box.empty());
  EXPECT_TRUE((Box{{1, 2}, {1, 6}}).empty());
  EXPECT_EQ((Box{{1, 2}, {1, 6}}).num_elems(), 0);
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_EQ((Box{{0, 0, 0}, {kHuge, kHuge, 0}}).num_elems(), 0) << "no overflow on the way to 0";
  EXPECT_FALSE(Box{}.empty()) << "no dimensions are one element";
  EXPECT_EQ(Box{}.num_elems(), 1);
}

TEST(Box, IntersectionsAndContainment) {
  const Box a{{0, 0}, {4, 4}};
  const Box b{{2, 3}, {9, 9}};
  EXPECT_EQ(intersect(a, b), (Box{{2, 3}, {4, 4}}));
  EXPECT_TRUE(overlaps(a, b));
  EXPECT_TRUE(intersect(a, Box{{4, 0}, {5, 4}}).empty()) << "boxes that touch share nothing";
  EXPECT_FALSE(overlaps(a, Box{{7, 0}, {8, 1}}));
  EXPECT_TRUE(a.contains(Box{{1, 1}, {4, 4}}));
  EXPECT_TRUE(a.contains(a));
  EXPECT_FALSE(a.contains(b));
  EXPECT_TRUE(overlaps(Box{}, Box{}));
}

TEST(Box, IndicesAndNames) {
  const Box box{{10, 20}, {13, 25}};
  EXPECT_EQ(linear_index({11, 22}, box), 7);
  EXPECT_EQ(linear_index({}, Box{}), 0);
  EXPECT_EQ(relative_to(box, {10, 20}), (Box{{0, 0}, {3, 5}}));
  EXPECT_EQ(to_string(box), "[10:13, 20:25]");
  EXPECT_EQ(to_string(Box{{0, 2}, {4, 3}}, {4, 4}), "[:, 2:3]");
  EXPECT_EQ(to_string(Box{}), "[]");
  EXPECT_LT((Box{{0, 0}, {1, 1}}), (Box{{0, 1}, {1, 2}}));
  EXPECT_LT((Box{{0, 0}, {1, 1}}), (Box{{0, 0}, {1, 2}}));
}

}  // namespace
}  // namespace loadstone
