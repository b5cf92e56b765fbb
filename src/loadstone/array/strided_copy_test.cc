#include "loadstone/array/strided_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "loadstone/base/error.h"

namespace loadstone {
namespace {

using Bytes = std::vector<std::byte>;

Bytes numbered(std::size_t bytes, std::uint32_t seed = 1) {
  std::mt19937 random(seed);
  Bytes out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

/// Byte by byte, as the header says it.
void plain_copy(std::byte* dst, const Dims& ds, const std::byte* src, const Dims& ss, const Dims& extents,
                std::int64_t itemsize, std::int64_t swap, int d = 0) {
  if (d == extents.size()) {
    for (std::int64_t i = 0; i < itemsize; ++i) {
      const std::int64_t from = swap > 1 ? i / swap * swap + (swap - 1 - i % swap) : i;
      dst[i] = src[from];
    }
    return;
  }
  for (std::int64_t i = 0; i < extents[d]; ++i) {
    plain_copy(dst + i * ds[d], ds, src + i * ss[d], ss, extents, itemsize, swap, d + 1);
  }
}

/// Strides of a dense block whose dimensions lie in `order`, slowest first, with gaps and mirrored as told.
struct Side {
  Dims strides;
  std::int64_t first = 0;  ///< byte of index 0
  std::int64_t bytes = 0;
};
Side make_side(const Dims& extents, const std::vector<int>& order, std::int64_t itemsize, std::mt19937& random,
               bool broadcast) {
  Side side;
  side.strides = Dims::filled(extents.size(), 0);
  std::int64_t step = itemsize;
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (random() % 4 == 0)
      step += static_cast<std::int64_t>(random() % 3) * itemsize + static_cast<std::int64_t>(random() % 2);
    if (broadcast && random() % 4 == 0) continue;
    side.strides[*it] = step;
    step *= std::max<std::int64_t>(extents[*it], 1);
  }
  side.bytes = step + itemsize;
  for (int d = 0; d < extents.size(); ++d) {
    if (random() % 4 != 0) continue;
    side.first += side.strides[d] * std::max<std::int64_t>(extents[d] - 1, 0);
    side.strides[d] = -side.strides[d];
  }
  return side;
}

void check_random(std::int64_t itemsize, std::int64_t swap, std::uint32_t seed) {
  std::mt19937 random(seed);
  const int ndim = static_cast<int>(random() % 5);
  Dims extents = Dims::filled(ndim, 0);
  std::int64_t elems = 1;
  for (int d = 0; d < ndim; ++d) {
    static constexpr std::array<std::int64_t, 8> kExtents{1, 2, 3, 5, 16, 17, 33, 70};
    extents[d] = random() % 40 == 0 ? 0 : kExtents[random() % kExtents.size()];
    if (elems * extents[d] > 20000) extents[d] = 2;
    elems *= extents[d];
  }
  std::vector<int> order(static_cast<std::size_t>(ndim));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  const Side to = make_side(extents, order, itemsize, random, false);
  std::shuffle(order.begin(), order.end(), random);
  const Side from = make_side(extents, order, itemsize, random, true);
  const Bytes src = numbered(static_cast<std::size_t>(from.bytes), seed);
  Bytes got(static_cast<std::size_t>(to.bytes), std::byte{0x5A});
  Bytes want = got;
  plain_copy(want.data() + to.first, to.strides, src.data() + from.first, from.strides, extents, itemsize, swap);
  StridedBytes source{const_cast<std::byte*>(src.data()) + from.first, from.strides};
  strided_copy({got.data() + to.first, to.strides}, source, extents, itemsize, swap);
  ASSERT_EQ(got, want) << "seed " << seed << " itemsize " << itemsize << " swap " << swap << " extents "
                       << to_string(extents) << " dst " << to_string(to.strides) << " src " << to_string(from.strides);
}

// covers: loading R5, R14
TEST(StridedCopy, EqualsAByteByByteCopyForAnyStridesItemsizeAndSwap) {
  static constexpr std::array<std::array<std::int64_t, 2>, 24> kCases{
      {{1, 1}, {2, 1}, {2, 2}, {3, 1},  {3, 3},  {4, 1},  {4, 2},  {4, 4},   {5, 1},  {6, 2},  {6, 3},   {8, 1},
       {8, 4}, {8, 8}, {8, 2}, {12, 4}, {12, 1}, {16, 1}, {16, 8}, {16, 16}, {16, 4}, {24, 8}, {32, 16}, {64, 1}}};
  std::uint32_t seed = 0;
  for (const auto& [itemsize, swap] : kCases) {
    for (int i = 0; i < 150; ++i) {
      check_random(itemsize, swap, ++seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(StridedCopy, KeepsEveryBitOfNegativeZeroAndNan) {
  const std::array<std::uint32_t, 6> bits{0x80000000U, 0x7FA00001U, 0xFFC12345U, 0x7F800000U, 1U, 0U};
  std::array<std::uint32_t, 6> out{};
  Bytes src(sizeof bits);
  std::memcpy(src.data(), bits.data(), sizeof bits);
  strided_copy({reinterpret_cast<std::byte*>(out.data()), {4, 8}}, {src.data(), {12, 4}}, {2, 3}, 4);
  EXPECT_EQ(out, (std::array<std::uint32_t, 6>{bits[0], bits[3], bits[1], bits[4], bits[2], bits[5]}));
}

TEST(StridedCopy, RepeatsOneElementForSourceStridesOfZero) {
  for (const std::int64_t itemsize : {1, 2, 3, 4, 8, 16, 24}) {
    Bytes element = numbered(static_cast<std::size_t>(itemsize));
    Bytes out(static_cast<std::size_t>(itemsize) * 5000, std::byte{0});
    strided_copy({out.data(), {1000 * itemsize, itemsize}}, {element.data(), {0, 0}}, {5, 1000}, itemsize);
    for (std::size_t i = 0; i < 5000; ++i) {
      ASSERT_TRUE(std::equal(element.begin(), element.end(), out.begin() + static_cast<std::ptrdiff_t>(i) * itemsize));
    }
  }
}

TEST(StridedCopy, TouchesNothingWhenAnExtentIsZero) {
  strided_copy({nullptr, {8, 8}}, {nullptr, {8, 8}}, {3, 0}, 8);
  std::byte one{7};
  std::byte out{0};
  strided_copy({&out, {}}, {&one, {}}, {}, 1);
  EXPECT_EQ(out, std::byte{7}) << "no dimensions are one element";
}

TEST(StridedCopy, TurnsLargeMatrices) {
  for (const std::int64_t itemsize : {1, 2, 4, 8, 16}) {
    const std::int64_t rows = 403;
    const std::int64_t cols = 517;
    Bytes src = numbered(static_cast<std::size_t>(rows * cols * itemsize));
    Bytes got(src.size());
    Bytes want(src.size());
    const Dims c{cols * itemsize, itemsize};
    const Dims f{itemsize, rows * itemsize};
    strided_copy({got.data(), c}, {src.data(), f}, {rows, cols}, itemsize, itemsize);
    plain_copy(want.data(), c, src.data(), f, {rows, cols}, itemsize, itemsize);
    EXPECT_EQ(got, want) << itemsize;
  }
}

TEST(StridedCopy, RefusesGroupsThatDoNotFillTheElement) {
  std::array<std::byte, 8> bytes{};
  try {
    strided_copy({bytes.data(), {}}, {bytes.data(), {}}, {}, 6, 4);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::internal);
  }
}

TEST(SwapInPlace, ReversesEachGroup) {
  for (const std::int64_t group : {2, 4, 8, 16}) {
    for (const std::int64_t groups : {0, 1, 3, 4, 37, 1000}) {
      const Bytes before = numbered(static_cast<std::size_t>(group * groups));
      Bytes after = before;
      swap_in_place(after.data(), group * groups, group);
      for (std::int64_t i = 0; i < group * groups; ++i) {
        ASSERT_EQ(after[static_cast<std::size_t>(i)],
                  before[static_cast<std::size_t>(i / group * group + group - 1 - i % group)]);
      }
    }
  }
  std::array<std::byte, 6> odd{};
  EXPECT_THROW(swap_in_place(odd.data(), 6, 4), Error);
  EXPECT_THROW(swap_in_place(odd.data(), 6, 3), Error);
}

}  // namespace
}  // namespace loadstone
