#include <algorithm>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/shard/sharding.h"

namespace loadstone {

RowTiles::RowTiles(std::int64_t total_rows, std::int64_t num_devices, std::int64_t k)
    : total(total_rows), devices(num_devices), over_decompose(k) {
  if (total < 0) throw usage_error(cat("row tiles: expected a number of rows >= 0, found ", total));
  if (devices < 1) throw usage_error(cat("row tiles: expected at least 1 device, found ", devices));
  if (over_decompose < 1) throw usage_error(cat("over-decomposition: expected a factor >= 1, found ", over_decompose));
  const auto wanted = checked_mul(devices, over_decompose);
  if (!wanted) {
    throw usage_error(
        cat("over-decomposition by ", over_decompose, " of ", devices, " devices makes more than 2^63-1 tiles"));
  }
  tile_rows = std::max<std::int64_t>(1, ceil_div(total, *wanted));
  num_tiles = ceil_div(total, tile_rows);
}

std::pair<std::int64_t, std::int64_t> RowTiles::rows(std::int64_t tile) const {
  if (tile < 0 || tile >= num_tiles) return {total, total};
  const std::int64_t begin = tile * tile_rows;
  return {begin, begin + std::min(tile_rows, total - begin)};
}

std::int64_t RowTiles::device_of(std::int64_t tile) const {
  if (num_tiles <= devices) return tile;
  return static_cast<std::int64_t>(static_cast<__int128>(tile) * devices / num_tiles);
}

std::pair<std::int64_t, std::int64_t> RowTiles::device_rows(std::int64_t device) const {
  if (num_tiles <= devices) return rows(device);
  if (device < 0 || device >= devices) return {total, total};
  // Tile t goes to floor(t·P/T), so device p holds the tiles from ceil(p·T/P) up to the first tile of p + 1.
  const auto first = [&](std::int64_t p) {
    return static_cast<std::int64_t>((static_cast<__int128>(p) * num_tiles + devices - 1) / devices);
  };
  return {rows(first(device)).first, rows(first(device + 1) - 1).second};
}

}  // namespace loadstone
