#include "loadstone/shard/tile_map.h"

#include <algorithm>
#include <numeric>

#include "loadstone/base/checked.h"

namespace loadstone {

namespace detail {

TileMap::TileMap(const Mesh& mesh, const PartitionSpec& spec) {
  const Dims strides = c_strides(mesh.axis_sizes());
  std::vector<bool> used(static_cast<std::size_t>(mesh.ndim()), false);
  for (const PartitionSpec::Entry& entry : spec.entries()) {
    std::int64_t n = 1;
    auto& axes = dims_.emplace_back();
    for (const std::string& name : entry) {
      const int axis = mesh.axis(name);
      used[static_cast<std::size_t>(axis)] = true;
      axes.push_back({mesh.axis_sizes()[axis], strides[axis]});
      n *= mesh.axis_sizes()[axis];
    }
    tiles.push_back(n);
  }
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (used[static_cast<std::size_t>(axis)]) continue;
    unused_.push_back({mesh.axis_sizes()[axis], strides[axis]});
    replicas *= mesh.axis_sizes()[axis];
  }
}

std::int64_t TileMap::rank(const std::vector<Axis>& axes, std::int64_t position) {
  std::int64_t out = 0;
  for (const Axis& axis : axes) out = out * axis.size + position / axis.stride % axis.size;
  return out;
}

std::int64_t TileMap::flat_tile(std::int64_t position) const {
  std::int64_t out = 0;
  for (int d = 0; d < tiles.size(); ++d) out = out * tiles[d] + tile(d, position);
  return out;
}

std::pair<std::int64_t, std::int64_t> TileMap::interval(int dim, std::int64_t position, std::int64_t size) const {
  const std::int64_t length = ceil_div(size, tiles[dim]);
  const std::int64_t begin = std::min(checked_mul(tile(dim, position), length).value_or(size), size);
  return {begin, begin + std::min(length, size - begin)};
}

std::vector<std::int64_t> all_positions(const Sharding& sharding) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(sharding.num_devices()));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

}  // namespace detail

TileAssignment tile_assignment(const Mesh& mesh, const PartitionSpec& spec, int ndim) {
  const PartitionSpec canonical = spec.canonical(mesh, ndim);
  TileAssignment out;
  out.mesh_shape = mesh.axis_sizes();
  std::vector<bool> used(static_cast<std::size_t>(mesh.ndim()), false);
  for (const PartitionSpec::Entry& entry : canonical.entries()) {
    std::int64_t n = 1;
    for (const std::string& name : entry) {
      const int axis = mesh.axis(name);
      used[static_cast<std::size_t>(axis)] = true;
      out.permutation.push_back(axis);
      n *= mesh.axis_sizes()[axis];
    }
    out.dims.push_back(n);
  }
  std::int64_t replicas = 1;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (used[static_cast<std::size_t>(axis)]) continue;
    out.permutation.push_back(axis);
    replicas *= mesh.axis_sizes()[axis];
  }
  out.dims.push_back(replicas);

  // Walks the transposed iota in row-major order: an odometer over the permuted axes.
  const Dims strides = c_strides(mesh.axis_sizes());
  Dims index = Dims::filled(mesh.ndim(), 0);
  std::int64_t position = 0;
  for (std::int64_t k = 0; k < mesh.num_devices(); ++k) {
    out.positions.push_back(position);
    for (int i = mesh.ndim() - 1; i >= 0; --i) {
      const int axis = static_cast<int>(out.permutation[i]);
      position += strides[axis];
      if (++index[i] < mesh.axis_sizes()[axis]) break;
      position -= index[i] * strides[axis];
      index[i] = 0;
    }
  }
  return out;
}

}  // namespace loadstone
