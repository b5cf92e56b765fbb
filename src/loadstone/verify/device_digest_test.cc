#include "loadstone/verify/device_digest.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <string>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "tests/fakes/cuda_driver.h"

namespace loadstone {
namespace {

/// Bytes in a GPU's memory for the length of a test.
class OnDevice {
 public:
  explicit OnDevice(const std::vector<std::byte>& bytes) {
    const cuda::Scope scope(0);
    cuda::check(cuda::driver()->mem_alloc(&pointer_, std::max<std::size_t>(bytes.size(), 1)), "allocate");
    const cuda::OwnedStream stream(0);
    cuda::check(cuda::driver()->memcpy_htod_async(pointer_, bytes.data(), bytes.size(), stream.get()), "copy");
    stream.synchronize();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() {
    const cuda::Scope scope(0);
    cuda::driver()->mem_free(pointer_);
  }
  const std::byte* data() const { return reinterpret_cast<const std::byte*>(pointer_); }

 private:
  cuda::DevicePtr pointer_ = 0;
};

std::vector<std::byte> random_bytes(std::int64_t count, std::mt19937_64& random) {
  std::vector<std::byte> out(static_cast<std::size_t>(count));
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

struct Tile {
  Shape shape;
  DType dtype;
  Box box;
  Dims strides;
  std::int64_t bytes;
};

/// A random box of a random array of up to `most` elements along its last dimension, in C order, in another order of
/// its dimensions, or with gaps.
Tile random_tile(std::mt19937_64& random, std::uint64_t most) {
  const DType types[] = {dtypes::kUInt8, dtypes::kBFloat16, dtypes::kFloat32, dtypes::kFloat64, dtypes::kComplex128};
  Tile out;
  out.dtype = types[random() % 5];
  const int ndim = 1 + static_cast<int>(random() % 4);
  for (int d = 0; d < ndim; ++d) {
    out.shape.push_back(1 + static_cast<std::int64_t>(random() % (d == ndim - 1 && random() % 2 == 0 ? most : 30)));
  }
  out.box = Box::whole(out.shape);
  for (int d = 0; d < ndim; ++d) {
    if (random() % 2 == 0) continue;
    out.box.begin[d] = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(out.shape[d]));
    out.box.end[d] = out.box.begin[d] + 1 +
                     static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(out.shape[d] - out.box.begin[d]));
  }
  std::vector<int> order(static_cast<std::size_t>(ndim));
  std::iota(order.rbegin(), order.rend(), 0);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  out.strides = Dims::filled(ndim, 0);
  std::int64_t step = out.dtype.itemsize();
  for (const int d : order) {
    out.strides[d] = step;
    step *= out.box.extent(d);
    if (random() % 4 == 0) step += out.dtype.itemsize() * static_cast<std::int64_t>(random() % 5);
  }
  out.bytes = step;
  return out;
}

void digest_random_tiles(int rounds, std::uint64_t most) {
  std::mt19937_64 random(17);
  for (int round = 0; round < rounds; ++round) {
    const Tile tile = random_tile(random, most);
    const std::vector<std::byte> host = random_bytes(tile.bytes, random);
    const OnDevice device(host);
    const Pd61 rule(tile.shape, tile.dtype, {}, random() % 2 == 0 ? 1 : 2);
    const DeviceTile where{tile.box, device.data(), tile.strides, 0};
    const auto found = pd61_on_devices(rule, {&where, 1});
    ASSERT_TRUE(found[0]);
    ASSERT_EQ(to_string(*found[0]), to_string(rule.tile(tile.box, host.data(), tile.strides)))
        << "round " << round << ": " << to_string(tile.shape) << " " << to_string(tile.box) << " "
        << to_string(tile.dtype);
  }
}

class DeviceDigest : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::reset({.devices = 2, .delay_us = 10});
    cuda::use_driver_for_tests(fake_cuda::table());
  }
  void TearDown() override { cuda::use_driver_for_tests(nullptr); }
};

// covers: engines 10
TEST_F(DeviceDigest, EqualsTheHostForRandomTiles) {
  digest_random_tiles(100, 1500);
}

// covers: loading E12
TEST_F(DeviceDigest, LeavesTilesToTheHostWhereNoMemoryCanBeLocked) {
  fake_cuda::reset({.pinned_limit = 0});
  cuda::use_driver_for_tests(fake_cuda::table());
  const std::vector<std::byte> host(64);
  const OnDevice device(host);
  const Pd61 rule(Shape{16}, dtypes::kFloat32);
  const DeviceTile tile{Box::whole(Shape{16}), device.data(), Dims{4}, 0};
  EXPECT_FALSE(pd61_on_devices(rule, {&tile, 1})[0]);
  EXPECT_EQ(fake_cuda::count("cuLaunchKernel"), 0);
}

TEST_F(DeviceDigest, TakesManyTilesAtOnce) {
  std::mt19937_64 random(3);
  const Shape shape{8, 600};
  const Pd61 rule(shape, dtypes::kFloat32);
  const std::vector<std::byte> host = random_bytes(8 * 600 * 4, random);
  const OnDevice device(host);
  std::vector<DeviceTile> tiles;
  Pd61Value sum;
  for (std::int64_t row = 0; row < 8; ++row) {
    tiles.push_back({{{row, 0}, {row + 1, 600}}, device.data() + row * 2400, {2400, 4}, 0});
  }
  tiles.push_back({{{0, 0}, {0, 600}}, device.data(), {2400, 4}, 0});
  for (const auto& value : pd61_on_devices(rule, tiles)) sum += *value;
  EXPECT_EQ(to_string(sum), to_string(rule.tile(Box::whole(shape), host.data())));
}

TEST_F(DeviceDigest, AFailingLaunchIsAnErrorThatNamesTheGpu) {
  const Pd61 rule({4, 4}, dtypes::kFloat32);
  const OnDevice device(std::vector<std::byte>(64));
  const DeviceTile tile{Box::whole({4, 4}), device.data(), {16, 4}, 0};
  fake_cuda::fail("cuLaunchKernel", 1, 719);
  try {
    pd61_on_devices(rule, {&tile, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("cannot digest on cuda:0: CUDA_ERROR_LAUNCH_FAILED (719)"), std::string::npos)
        << error.message();
  }
}

/// On the GPU of this machine.
class GpuDigest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::driver() == nullptr) GTEST_SKIP() << cuda::driver_problem();
    if (!cuda::kernels_problem(0).empty()) GTEST_SKIP() << cuda::kernels_problem(0);
  }
};

// covers: engines 10, engines 11
TEST_F(GpuDigest, SmallRandomTilesEqualTheHost) {
  digest_random_tiles(400, 5000);
}

// covers: engines 11
TEST_F(GpuDigest, LargeTilesEqualTheHost) {
  digest_random_tiles(20, 300000);
}

}  // namespace
}  // namespace loadstone
