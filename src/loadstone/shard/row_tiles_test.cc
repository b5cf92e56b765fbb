#include <random>

#include "loadstone/base/checked.h"
#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

using test::expect_usage_error;
using Lines = std::vector<std::string>;

std::vector<Device> cpus(std::int64_t count) {
  std::vector<Device> devices = Mesh::of_cpus({"x"}, {count}).devices();
  return devices;
}

std::vector<std::int64_t> sizes_of(const RowTiles& tiles) {
  std::vector<std::int64_t> out;
  for (std::int64_t t = 0; t < tiles.num_tiles; ++t) out.push_back(tiles.rows(t).second - tiles.rows(t).first);
  return out;
}

std::string device_rows_of(const RowTiles& tiles) {
  Lines parts;
  for (std::int64_t p = 0; p < tiles.devices; ++p) {
    parts.push_back(cat(tiles.device_rows(p).first, ":", tiles.device_rows(p).second));
  }
  return join(parts, " ");
}

// covers: loading P1
TEST(RowTiles, SplitAxisZeroAndKeepTheTrailingShape) {
  for (const Shard& shard : Sharding::row_tiles(cpus(4)).all_shards({10, 3, 5})) {
    EXPECT_EQ(shard.box.begin[1], 0);
    EXPECT_EQ(shard.box.shape(), (Shape{shard.box.extent(0), 3, 5}));
  }
}

// covers: loading P2, loading P3, loading P4
TEST(RowTiles, TileRowsAndNumTiles) {
  using Sizes = std::vector<std::int64_t>;
  const RowTiles ten(10, 4, 1);
  EXPECT_EQ(ten.tile_rows, 3);
  EXPECT_EQ(ten.num_tiles, 4);
  EXPECT_EQ(sizes_of(ten), (Sizes{3, 3, 3, 1}));
  const RowTiles nine(9, 8, 1);
  EXPECT_EQ(nine.tile_rows, 2);
  EXPECT_EQ(nine.num_tiles, 5);
  EXPECT_EQ(sizes_of(nine), (Sizes{2, 2, 2, 2, 1}));
  EXPECT_EQ(device_rows_of(nine), "0:2 2:4 4:6 6:8 8:9 9:9 9:9 9:9");
  EXPECT_EQ(nine.rows(5), (std::pair<std::int64_t, std::int64_t>{9, 9}));
}

// covers: loading P5
TEST(RowTiles, NeedNoDivisibilityAndEqualCeil) {
  for (std::int64_t total = 0; total < 40; ++total) {
    for (std::int64_t p = 1; p < 10; ++p) {
      const Sharding tiles = Sharding::row_tiles(cpus(p));
      const Sharding ceil(Mesh::of_cpus({"x"}, {p}), parse_spec("x"), Uneven::ceil);
      EXPECT_EQ(tiles.all_shards({total, 2}), ceil.all_shards({total, 2})) << total << " rows on " << p;
    }
  }
  expect_usage_error([] { Sharding(Mesh::of_cpus({"x"}, {4}), parse_spec("x")).check({10}); }, {"uneven=ceil"});
}

// covers: loading P6, loading P14, loading F9
TEST(RowTiles, AreDisjointCoverAllAndAgreeWithTheirDevices) {
  std::mt19937_64 random(61);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t total = below(round % 3 == 0 ? 20 : 2000);
    const std::int64_t devices = 1 + below(40);
    const std::int64_t k = 1 + below(6);
    SCOPED_TRACE(cat(total, " rows, ", devices, " devices, K = ", k));
    const RowTiles tiles(total, devices, k);
    EXPECT_EQ(tiles.tile_rows, std::max<std::int64_t>(1, ceil_div(total, k * devices)));
    EXPECT_LE(tiles.num_tiles, k * devices);

    std::vector<std::pair<std::int64_t, std::int64_t>> by_device(static_cast<std::size_t>(devices), {total, total});
    std::int64_t at = 0;
    std::int64_t last_device = 0;
    for (std::int64_t t = 0; t < tiles.num_tiles; ++t) {
      const auto [begin, end] = tiles.rows(t);
      ASSERT_EQ(begin, at);
      ASSERT_GT(end, begin);
      at = end;
      const std::int64_t device = tiles.device_of(t);
      ASSERT_GE(device, last_device);
      ASSERT_LT(device, devices);
      last_device = device;
      auto& rows = by_device[static_cast<std::size_t>(device)];
      rows = {std::min(rows.first, begin), end};
    }
    ASSERT_EQ(at, total);
    for (std::int64_t p = 0; p < devices; ++p) {
      ASSERT_EQ(tiles.device_rows(p), by_device[static_cast<std::size_t>(p)]) << "device " << p;
    }
    EXPECT_EQ(device_rows_of(RowTiles(total, devices, k)), device_rows_of(tiles));
  }
}

// covers: loading P7, loading P8
TEST(RowTiles, EqualFilesOneADeviceGiveOneFileATile) {
  const std::int64_t file_rows = 7;
  for (std::int64_t files = 1; files < 20; ++files) {
    const RowTiles same(files * file_rows, files, 1);
    EXPECT_EQ(same.tile_rows, file_rows);
    for (std::int64_t f = 0; f < files; ++f) {
      EXPECT_EQ(same.rows(f), (std::pair{f * file_rows, (f + 1) * file_rows}));
    }
    EXPECT_GT(RowTiles((files + 1) * file_rows, files, 1).tile_rows, file_rows);
  }
  // Four files of 3, 0, 4 and 3 rows on four devices: tiles end inside files.
  EXPECT_EQ(device_rows_of(RowTiles(10, 4, 1)), "0:3 3:6 6:9 9:10");
}

// covers: loading P9
TEST(RowTiles, OverDecompositionKeepsTheTilesOfADeviceAdjacent) {
  const RowTiles tiles(10, 4, 2);
  EXPECT_EQ(tiles.tile_rows, 2);
  EXPECT_EQ(tiles.num_tiles, 5);
  std::vector<std::int64_t> devices;
  for (std::int64_t t = 0; t < 5; ++t) devices.push_back(tiles.device_of(t));
  EXPECT_EQ(devices, (std::vector<std::int64_t>{0, 0, 1, 2, 3}));
  EXPECT_EQ(device_rows_of(tiles), "0:4 4:6 6:8 8:10");
  EXPECT_EQ(device_rows_of(RowTiles(3, 4, 2)), "0:1 1:2 2:3 3:3");
  EXPECT_EQ(test::map_of(Sharding::row_tiles(cpus(4), 2), {10})[0], "d0 [0:4] r0");
}

// covers: loading P10, loading F6
TEST(RowTiles, CountTheDevicesThatAreGivenAndNoOthers) {
  const std::vector<Device> gpus = parse_devices("cuda:0,cuda:1,cuda:2,cuda:3");
  const std::vector<Shard> shards = Sharding::row_tiles(gpus).all_shards({16});
  ASSERT_EQ(shards.size(), 4U);
  for (const Shard& shard : shards) EXPECT_EQ(shard.box.extent(0), 4);
}

// covers: loading P11
TEST(RowTiles, UnderAShardingTheyCutOneBoxIntoWindows) {
  const Sharding sharding(Mesh::of_cpus({"x"}, {4}), parse_spec("x"));
  EXPECT_EQ(sharding.over_decompose(), 1);
  for (const Shard& shard : sharding.all_shards({28, 3})) {
    const RowTiles windows(shard.box.extent(0), 1, 3);
    EXPECT_EQ(sizes_of(windows), (std::vector<std::int64_t>{3, 3, 1}));
    EXPECT_EQ(windows.device_rows(0), (std::pair<std::int64_t, std::int64_t>{0, 7}));
  }
}

// covers: loading P12
TEST(RowTiles, SmallArraysAreSpreadAsLargeOnesAre) {
  EXPECT_EQ(device_rows_of(RowTiles(4, 4, 1)), "0:1 1:2 2:3 3:4");
  EXPECT_EQ(device_rows_of(RowTiles(2, 4, 1)), "0:1 1:2 2:2 2:2");
  EXPECT_EQ(device_rows_of(RowTiles(std::int64_t{1} << 40, 2, 1)), "0:549755813888 549755813888:1099511627776");
}

// covers: loading P13, loading F5
TEST(RowTiles, NoRowsGiveEveryDeviceAnEmptyBox) {
  const RowTiles none(0, 4, 3);
  EXPECT_EQ(none.tile_rows, 1);
  EXPECT_EQ(none.num_tiles, 0);
  for (const Shard& shard : Sharding::row_tiles(cpus(4), 3).all_shards({0, 5})) {
    EXPECT_EQ(shard.box.shape(), (Shape{0, 5}));
  }
}

TEST(RowTiles, RefuseImpossibleNumbers) {
  expect_usage_error([] { RowTiles(-1, 4, 1); }, {"rows >= 0", "found -1"});
  expect_usage_error([] { RowTiles(4, 0, 1); }, {"at least 1 device", "found 0"});
  expect_usage_error([] { RowTiles(4, 1, 0); }, {"factor >= 1", "found 0"});
  expect_usage_error([] { RowTiles(4, 4, std::int64_t{1} << 62); }, {"2^63-1 tiles"});
}

TEST(RowTiles, TheLargestNumbersDoNotOverflow) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const RowTiles tiles(most, 3, std::int64_t{1} << 60);
  EXPECT_EQ(tiles.rows(tiles.num_tiles - 1).second, most);
  EXPECT_EQ(tiles.device_of(tiles.num_tiles - 1), 2);
  EXPECT_EQ(tiles.device_rows(0).second, tiles.device_rows(1).first);
  EXPECT_EQ(tiles.device_rows(1).second, tiles.device_rows(2).first);
  EXPECT_EQ(tiles.device_rows(2).second, most);
}

}  // namespace
}  // namespace loadstone
