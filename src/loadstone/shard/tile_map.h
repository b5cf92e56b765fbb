#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/shard/sharding.h"

namespace loadstone::detail {

/// Where the devices of a mesh stand in the grid of tiles: the closed form behind Kind::named. Costs O(axes of the
/// mesh) to make and for each question. `spec` must be canonical on the mesh.
struct TileMap {
  TileMap(const Mesh& mesh, const PartitionSpec& spec);

  Dims tiles;                 ///< tiles along each dimension
  std::int64_t replicas = 1;  ///< devices that hold each tile

  /// Tile of dimension `dim` that the device at `position` holds.
  std::int64_t tile(int dim, std::int64_t position) const {
    return rank(dims_[static_cast<std::size_t>(dim)], position);
  }
  /// Row-major number of the device's tile in the grid `tiles`.
  std::int64_t flat_tile(std::int64_t position) const;
  /// Rank over the axes that split nothing.
  std::int64_t replica(std::int64_t position) const { return rank(unused_, position); }
  /// [begin, end) of the device on a dimension of `size` elements, by tiles of ceil(size / n): exact where it divides.
  std::pair<std::int64_t, std::int64_t> interval(int dim, std::int64_t position, std::int64_t size) const;

 private:
  struct Axis {
    std::int64_t size, stride;
  };
  static std::int64_t rank(const std::vector<Axis>& axes, std::int64_t position);
  std::vector<std::vector<Axis>> dims_;
  std::vector<Axis> unused_;
};

/// 0 … num_devices-1.
std::vector<std::int64_t> all_positions(const Sharding& sharding);

}  // namespace loadstone::detail
