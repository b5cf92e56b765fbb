#include "loadstone/exec/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "loadstone/base/cat.h"
#include "tests/fakes/cuda_kernels.h"

namespace loadstone {
namespace {

using Bytes = std::vector<std::byte>;

/// A box of elements spread over a buffer in a random order of dimensions, with gaps, some dimensions backwards.
struct Side {
  Dims strides;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
Side random_side(const Dims& extents, std::int64_t itemsize, std::mt19937_64& random, std::int64_t align) {
  std::vector<int> order(static_cast<std::size_t>(extents.size()));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  Side side;
  side.strides = Dims::filled(extents.size(), 0);
  std::int64_t step = itemsize;
  for (const int d : order) {
    side.strides[d] = step;
    step *= extents[d];
    if (random() % 3 == 0) step += align * static_cast<std::int64_t>(random() % 5);
  }
  for (int d = 0; d < extents.size(); ++d) {
    if (random() % 4 != 0) continue;
    side.offset += (extents[d] - 1) * side.strides[d];
    side.strides[d] = -side.strides[d];
  }
  const std::int64_t shift = align * static_cast<std::int64_t>(random() % 3);
  side.offset += shift;
  side.bytes = step + shift;
  return side;
}

void copy_plainly(const ScatterCopy& copy, int d, const std::byte* from, std::byte* to) {
  if (d < copy.extents.size()) {
    for (std::int64_t i = 0; i < copy.extents[d]; ++i) {
      copy_plainly(copy, d + 1, from + i * copy.from_strides[d], to + i * copy.to_strides[d]);
    }
    return;
  }
  std::copy_n(from, copy.itemsize, to);
  for (std::int64_t i = 0; copy.swap > 0 && i < copy.itemsize; i += copy.swap) std::reverse(to + i, to + i + copy.swap);
}

// covers: loading R14
TEST(Scatter, DoesRandomStridedCopiesAndSwaps) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(cat("round ", round));
    const std::int64_t itemsize = std::int64_t{1} << random() % 5;
    const std::int64_t align = random() % 3 == 0 ? 1 : itemsize;
    std::vector<ScatterCopy> copies(1 + random() % 3);
    std::vector<Bytes> sources;
    std::vector<Bytes> found;
    std::vector<Bytes> expected;
    sources.reserve(copies.size());
    found.reserve(copies.size());
    expected.reserve(copies.size());
    for (ScatterCopy& copy : copies) {
      const int ndim = static_cast<int>(random() % 8);
      for (int d = 0; d < ndim; ++d) copy.extents.push_back(static_cast<std::int64_t>(random() % (ndim > 4 ? 3 : 6)));
      if (random() % 8 != 0) {
        for (std::int64_t& extent : copy.extents) extent = std::max<std::int64_t>(extent, 1);
      }
      copy.itemsize = itemsize;
      copy.swap = itemsize > 1 && random() % 2 == 0 ? std::min<std::int64_t>(itemsize, 8) : 0;
      const Side from = random_side(copy.extents, itemsize, random, align);
      const Side to = random_side(copy.extents, itemsize, random, align);
      copy.from_strides = from.strides;
      copy.to_strides = to.strides;
      Bytes& source = sources.emplace_back(static_cast<std::size_t>(from.bytes + 16));
      for (std::byte& b : source) b = static_cast<std::byte>(random());
      Bytes& got = found.emplace_back(static_cast<std::size_t>(to.bytes + 16), std::byte{0xA5});
      expected.push_back(got);
      copy.from = source.data() + from.offset;
      copy.to = got.data() + to.offset;
      copy_plainly(copy, 0, copy.from, expected.back().data() + to.offset);
    }
    for (const ScatterJob& job : scatter_jobs(copies)) {
      ASSERT_GE(scatter_blocks(job), 1U);
      scatter_twin(job);
    }
    for (std::size_t i = 0; i < copies.size(); ++i) ASSERT_EQ(found[i], expected[i]) << "copy " << i;
  }
}

TEST(Scatter, MovesAlignedRunsSixteenBytesAtOnce) {
  alignas(16) std::byte from[16 * 64];
  alignas(16) std::byte to[1];
  const ScatterCopy columns{from, to, {16, 16}, {64, 4}, {512, 4}, 4, 4};
  const std::vector<ScatterJob> jobs = scatter_jobs({&columns, 1});
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].unit, 16);
  EXPECT_EQ(jobs[0].swap, 4);
  EXPECT_EQ(jobs[0].boxes[0].units, 64U);
  EXPECT_EQ(jobs[0].boxes[0].ndim, 2);
}

TEST(Scatter, PutsCopiesOfOneKindIntoOneLaunch) {
  alignas(16) std::byte memory[64];
  const std::vector<ScatterCopy> copies(20, ScatterCopy{memory, memory, {4}, {8}, {4}, 4, 0});
  const std::vector<ScatterJob> jobs = scatter_jobs(copies);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].count, 16);
  EXPECT_EQ(jobs[1].count, 4);
}

}  // namespace
}  // namespace loadstone
