#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "loadstone/array/box.h"
#include "loadstone/shard/mesh.h"
#include "loadstone/shard/spec.h"

namespace loadstone {

/// What to do with a dimension that does not divide over its mesh axes.
enum class Uneven : std::uint8_t {
  error,  ///< refuse (JAX's rule)
  ceil    ///< tiles of ceil(D / n); the last non-empty one may be short, later ones are empty at [D:D]
};

/// The box of the array that one device owns.
struct Shard {
  std::int64_t position = 0;  ///< of the device in the mesh, row-major
  Device device;
  Box box;
  std::int64_t replica_id = 0;  ///< rank over the mesh axes that do not split the array; 0 is the copy that writes
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Which box of an array each device holds: a mesh of devices × a partition spec, or one of three other forms. Does not
/// know the array's shape: one sharding serves many arrays. Everything is computed in closed form for the devices asked
/// for; nothing is O(all devices) unless all are asked for.
///
/// Index map: dimension of size D split over axes (a1..ak) with n = |a1|·…·|ak| tiles; the device's tile is
/// c = (…(c1·|a2| + c2)…)·|ak| + ck of its mesh coordinates; its box is [c·D/n, (c+1)·D/n), or with Uneven::ceil
/// [min(c·t, D), min((c+1)·t, D)) with t = ceil(D/n). Example: D = 10, n = 4, ceil gives 0:3 3:6 6:9 9:10.
/// Source: jax.sharding.NamedSharding; sharding sections 3 and 4.
class Sharding {
 public:
  enum class Kind : std::uint8_t {
    named,      ///< mesh × spec
    row_tiles,  ///< axis 0 in ceil tiles over a 1-D list of devices (loading P1–P14)
    boxes       ///< a table of boxes, one a device: shardings of other libraries by their own index map
  };

  Sharding(Mesh mesh, PartitionSpec spec, Uneven uneven = Uneven::error);
  /// The whole array on one device.
  static Sharding single(Device device = {});
  /// Axis 0 in tiles of row_tile_size(total, P, over_decompose) rows, see RowTiles.
  static Sharding row_tiles(std::vector<Device> devices, std::int64_t over_decompose = 1);
  /// boxes[k] belongs to devices[k], for arrays of `shape` only. Boxes may overlap and repeat (then they are replicas
  /// in list order). Error{usage} when a box leaves the shape or the boxes do not cover it.
  static Sharding from_boxes(std::vector<Device> devices, Shape shape, std::vector<Box> boxes);

  Kind kind() const { return kind_; }
  const Mesh& mesh() const { return mesh_; }
  const PartitionSpec& spec() const { return spec_; }
  Uneven uneven() const { return uneven_; }
  std::int64_t over_decompose() const { return over_decompose_; }
  const std::vector<Device>& devices() const { return mesh_.devices(); }
  std::int64_t num_devices() const { return mesh_.num_devices(); }

  /// Error{usage} when an array of this shape cannot be placed: number of dimensions, unknown axis, a dimension that
  /// does not divide (array, dimension, size, axes with sizes and the remedy are named). `name` is the array's, for
  /// messages.
  void check(const Shape& shape, std::string_view name = "array") const;

  /// Box and replica id of the device at a mesh position. Calls check().
  Shard shard(const Shape& shape, std::int64_t position) const;
  /// Shards of the devices at these positions, in the order given; checks once.
  std::vector<Shard> shards(const Shape& shape, const std::vector<std::int64_t>& positions) const;
  /// All devices in mesh order, or those of one process in mesh order.
  std::vector<Shard> all_shards(const Shape& shape) const;
  std::vector<Shard> local_shards(const Shape& shape, std::int32_t process) const;

  /// Numbers of the tiles that these devices hold of an array of `ndim` dimensions: devices with equal numbers are
  /// replicas, also where boxes are empty. In the order given.
  std::vector<std::int64_t> tiles(int ndim, const std::vector<std::int64_t>& positions) const;

  /// Tiles along each dimension (1 where it is not split). For Kind::named and row_tiles; Error{usage} for boxes.
  Dims tiles_per_dim(int ndim) const;
  /// The one shard shape of an even sharding; of tile 0 with Uneven::ceil.
  Shape shard_shape(const Shape& shape) const;
  /// Product of the sizes of the axes that do not split an array of `ndim` dimensions: how many devices hold each box
  /// (the least number where that differs: Kind::boxes).
  std::int64_t replication_factor(int ndim) const;
  bool is_fully_replicated(int ndim) const;
  bool is_fully_addressable(std::int32_t process) const;

  /// Equal placements of arrays of `ndim` dimensions: the same devices in the same order hold the same tiles under the
  /// same rule for uneven dimensions (P('x') and P('x', None); axis names do not count).
  bool same_placement(const Sharding& other, int ndim) const;
  friend bool operator==(const Sharding&, const Sharding&) = default;

 private:
  Sharding(Kind kind, Mesh mesh);
  Kind kind_ = Kind::named;
  Mesh mesh_;
  PartitionSpec spec_;
  Uneven uneven_ = Uneven::error;
  std::int64_t over_decompose_ = 1;
  Shape boxes_shape_;                                   // Kind::boxes
  std::vector<Box> boxes_;                              // Kind::boxes
  std::vector<std::int64_t> box_tiles_, box_replicas_;  // Kind::boxes: position of the first equal box; rank among them
};

/// Second formulation of the index map, as a check on the first (sharding section 3): lay the tiles out over an iota of
/// the mesh, reshaped and transposed. Returns the tile index of every mesh position, row-major. O(all devices).
struct TileAssignment {
  Dims dims;                            ///< tiles per dimension, then replicas
  Dims mesh_shape;                      ///< the iota's reshape
  Dims permutation;                     ///< axes in spec order, then unused axes in mesh order
  std::vector<std::int64_t> positions;  ///< mesh positions laid out in `dims`, row-major
};
TileAssignment tile_assignment(const Mesh& mesh, const PartitionSpec& spec, int ndim);

/// The row tiles of loading P1–P14, a pure function of (total, P, K): tile_rows = max(1, ceil(total / (K·P))),
/// num_tiles = ceil(total / tile_rows). With more tiles than devices tile t goes to device floor(t·P / num_tiles),
/// otherwise to device t. Example: total 10, P 4, K 1 gives tiles of 3, 3, 3, 1.
struct RowTiles {
  std::int64_t total = 0, devices = 1, over_decompose = 1;
  std::int64_t tile_rows = 1, num_tiles = 0;

  RowTiles(std::int64_t total_rows, std::int64_t num_devices, std::int64_t k);
  std::pair<std::int64_t, std::int64_t> rows(std::int64_t tile) const;  ///< [begin, end)
  std::int64_t device_of(std::int64_t tile) const;
  std::pair<std::int64_t, std::int64_t> device_rows(std::int64_t device) const;  ///< union of its tiles, [begin, end)
};

}  // namespace loadstone
