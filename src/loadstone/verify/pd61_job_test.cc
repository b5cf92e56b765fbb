#include "loadstone/verify/pd61_job.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/verify/pd61.h"
#include "loadstone/verify/pd61_kernel.h"
#include "tests/fakes/cuda_kernels.h"

namespace loadstone {
namespace {

Pd61Value by_twin(const Pd61& rule, const Box& box, const std::byte* data, const Dims& strides) {
  const std::optional<Pd61Launch> launch = make_pd61_launch(rule, box, data, strides, 132);
  if (!launch) ADD_FAILURE() << "no launch for " << to_string(box);
  std::vector<unsigned long long> sums(static_cast<std::size_t>(launch->blocks) *
                                       static_cast<std::size_t>(launch->lanes));
  pd61_twin(launch->job, launch->lanes, launch->blocks, sums.data());
  Pd61Value out;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    Pd61Value part;
    part.lanes[i % static_cast<std::size_t>(launch->lanes)] = sums[i];
    out += part;
  }
  for (std::size_t lane = 0; lane < 2; ++lane) out.lanes[lane] = detail::mul61(out.lanes[lane], launch->factor[lane]);
  return out;
}

// covers: engines 10
TEST(Pd61Job, DescribesRandomTiles) {
  std::mt19937_64 random(11);
  const DType types[] = {dtypes::kUInt8, dtypes::kBFloat16, dtypes::kFloat32, dtypes::kFloat64, dtypes::kComplex128};
  int columns = 0;
  for (int round = 0; round < 400; ++round) {
    const DType dtype = types[random() % 5];
    const std::int64_t itemsize = dtype.itemsize();
    Shape shape;
    const int ndim = 1 + static_cast<int>(random() % 4);
    for (int d = 0; d < ndim; ++d) {
      shape.push_back(1 + static_cast<std::int64_t>(random() % (d == ndim - 1 && random() % 2 == 0 ? 3000 : 12)));
    }
    Box box = Box::whole(shape);
    for (int d = 0; d < ndim; ++d) {
      box.begin[d] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[d]));
      if (random() % 2 == 0) box.begin[d] = 0;
      box.end[d] =
          box.begin[d] + 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(shape[d] - box.begin[d]));
      if (random() % 2 == 0) box.end[d] = shape[d];
    }
    // In memory: C order, or the dimensions in another order with gaps between.
    std::vector<int> order(static_cast<std::size_t>(ndim));
    std::iota(order.rbegin(), order.rend(), 0);
    const bool c_order = random() % 2 == 0;
    if (!c_order) std::shuffle(order.begin(), order.end(), random);
    Dims strides = Dims::filled(ndim, 0);
    std::int64_t step = itemsize;
    for (const int d : order) {
      strides[d] = step;
      step *= box.extent(d);
      if (random() % 4 == 0) step += itemsize * static_cast<std::int64_t>(random() % 5);
    }
    std::vector<std::byte> data(static_cast<std::size_t>(step));
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    const Pd61 rule(shape, dtype, {}, random() % 2 == 0 ? 1 : 2);
    const Pd61Value expected = rule.tile(box, data.data(), strides);
    ASSERT_EQ(to_string(by_twin(rule, box, data.data(), strides)), to_string(expected))
        << "round " << round << ": " << to_string(shape) << " " << to_string(box) << " " << to_string(dtype);
    columns += make_pd61_launch(rule, box, data.data(), strides, 132)->columns ? 1 : 0;
  }
  EXPECT_GT(columns, 50);
  EXPECT_LT(columns, 350);
}

TEST(Pd61Job, LongRowsTakeTheColumnsKernel) {
  const Pd61 rule({1024, 4096}, dtypes::kFloat32);
  const auto launch = make_pd61_launch(rule, Box::whole({1024, 4096}), nullptr, {16384, 4}, 132);
  ASSERT_TRUE(launch);
  EXPECT_TRUE(launch->columns);
  EXPECT_TRUE(launch->aligned);
  EXPECT_EQ(launch->job.width, 256);
  EXPECT_STREQ(launch->kernel(), "loadstone_pd61_columns_2_full");
}

TEST(Pd61Job, ColumnsOfWideRowsShareAThreadBlock) {
  const Pd61 rule({1024, 65536}, dtypes::kFloat32, {}, 1);
  const Box tile{{0, 64}, {1024, 80}};  // 64 bytes of each row
  const auto launch = make_pd61_launch(rule, tile, nullptr, {64, 4}, 132);
  ASSERT_TRUE(launch);
  EXPECT_TRUE(launch->columns && launch->aligned);
  EXPECT_EQ(launch->job.width, 4);
  EXPECT_EQ(launch->job.first_vector, 16);
}

TEST(Pd61Job, TypesOfLessThanAByteAreLeftToTheHost) {
  const Pd61 rule({8, 8}, DType{17, 4, 1});
  EXPECT_FALSE(make_pd61_launch(rule, Box::whole({8, 8}), nullptr, {4, 0}, 132));
}

}  // namespace
}  // namespace loadstone
