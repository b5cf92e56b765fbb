#include "loadstone/shard/sharding.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/shard/process_view.h"
#include "loadstone/shard/tile_map.h"

namespace loadstone {

using detail::TileMap;

namespace {

// "tiles of 3 and 1": the different lengths that Uneven::ceil would give.
std::string ceil_lengths(std::int64_t size, std::int64_t n) {
  std::vector<std::string> lengths;
  const std::int64_t tile = ceil_div(size, n);
  lengths.push_back(cat(tile));
  if (size % tile != 0) lengths.push_back(cat(size % tile));
  if (ceil_div(size, tile) < n) lengths.emplace_back("0");
  const std::string last = lengths.back();
  lengths.pop_back();
  return cat("tiles of ", join(lengths, ", "), " and ", last);
}

std::string indivisible(const Mesh& mesh, const PartitionSpec::Entry& axes, int dim, std::int64_t size,
                        std::int64_t n) {
  std::vector<std::string> parts;
  for (const std::string& name : axes) {
    parts.push_back(cat("'", printable(name), "' (size ", mesh.axis_sizes()[mesh.axis(name)], ")"));
  }
  return cat("dimension ", dim, " (size ", size, ") does not divide over mesh ", axes.size() == 1 ? "axis " : "axes ",
             join(parts, " and "), axes.size() == 1 ? "" : cat(", ", n, " tiles"), "; uneven=ceil allows ",
             ceil_lengths(size, n));
}

void check_extents(const Shape& shape) {
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw usage_error(cat("shape ", to_string(shape), " has a negative dimension"));
  }
}

Mesh line_of(std::vector<Device> devices, const char* axis_name, const char* what) {
  if (devices.empty()) throw usage_error(cat(what, " need at least 1 device, found 0 devices"));
  const Dims sizes{static_cast<std::int64_t>(devices.size())};
  return Mesh({axis_name}, sizes, std::move(devices));
}

// The faults of single boxes; whether they cover the array is another question.
void check_boxes(const std::vector<Device>& devices, const Shape& shape, const std::vector<Box>& boxes) {
  if (devices.size() != boxes.size()) {
    throw usage_error(
        cat("a table of boxes needs one box a device: ", devices.size(), " devices, ", boxes.size(), " boxes"),
        {{}, cat(devices.size(), " boxes"), cat(boxes.size(), " boxes"), 0});
  }
  std::vector<std::string> faults;
  for (std::size_t k = 0; k < boxes.size(); ++k) {
    const Box& box = boxes[k];
    bool inside = box.begin.size() == shape.size() && box.end.size() == shape.size();
    for (int d = 0; inside && d < shape.size(); ++d) {
      inside = 0 <= box.begin[d] && box.begin[d] <= box.end[d] && box.end[d] <= shape[d];
    }
    if (!inside) {
      faults.push_back(cat(to_string(devices[k]), " has ", to_string(box.begin), " to ", to_string(box.end)));
    }
  }
  if (!faults.empty()) {
    throw usage_error(
        cat("boxes do not lie inside the array of shape ", to_string(shape), ": ", join_first(faults, 5)));
  }
}

std::int64_t count_elems(const Shape& shape) {
  try {
    return num_elems(shape);
  } catch (const Error& error) {
    throw usage_error(error.message());  // here the shape comes from the caller, not from a file
  }
}

void check_cover(const Shape& shape, const std::vector<Box>& boxes) {
  const std::int64_t total = count_elems(shape);
  std::int64_t held = 0;
  for (const Box& box : merge_boxes(boxes)) held += box.num_elems();
  if (held != total) {
    throw usage_error(cat("the boxes do not cover the array of shape ", to_string(shape), ": expected ", total,
                          " elements, found ", held),
                      {{}, cat(total, " elements"), cat(held, " elements"), 0});
  }
}

}  // namespace

Sharding::Sharding(Mesh mesh, PartitionSpec spec, Uneven uneven)
    : mesh_(std::move(mesh)), spec_(std::move(spec)), uneven_(uneven) {}

Sharding::Sharding(Kind kind, Mesh mesh) : kind_(kind), mesh_(std::move(mesh)) {}

Sharding Sharding::single(Device device) {
  return Sharding(Mesh({"device"}, {1}, {device}), PartitionSpec());
}

Sharding Sharding::row_tiles(std::vector<Device> devices, std::int64_t over_decompose) {
  Sharding out(Kind::row_tiles, line_of(std::move(devices), "tile", "row tiles"));
  out.over_decompose_ = RowTiles(0, out.num_devices(), over_decompose).over_decompose;
  out.uneven_ = Uneven::ceil;
  return out;
}

Sharding Sharding::from_boxes(std::vector<Device> devices, Shape shape, std::vector<Box> boxes) {
  check_extents(shape);
  check_boxes(devices, shape, boxes);
  Sharding out(Kind::boxes, line_of(std::move(devices), "device", "boxes"));
  check_cover(shape, boxes);

  std::map<Box, std::pair<std::int64_t, std::int64_t>> holders;  // box -> first position, count so far
  for (const Box& box : boxes) {
    const auto pos = static_cast<std::int64_t>(out.box_tiles_.size());
    if (box.empty()) {
      out.box_tiles_.push_back(pos);
      out.box_replicas_.push_back(0);
      continue;
    }
    auto& [first, count] = holders.try_emplace(box, pos, 0).first->second;
    out.box_tiles_.push_back(first);
    out.box_replicas_.push_back(count++);
  }
  out.boxes_shape_ = std::move(shape);
  out.boxes_ = std::move(boxes);
  return out;
}

void Sharding::check(const Shape& shape, std::string_view name) const {
  const std::string subject = cat("'", printable(name), "'");
  const int ndim = shape.size();
  try {
    check_extents(shape);
    if (kind_ == Kind::row_tiles && ndim == 0) {
      throw usage_error("row tiles split dimension 0, but a scalar (ndim 0) has none");
    }
    if (kind_ == Kind::boxes && !(shape == boxes_shape_)) {
      throw usage_error(
          cat("the table of boxes is for arrays of shape ", to_string(boxes_shape_), ", found ", to_string(shape)),
          {{}, to_string(boxes_shape_), to_string(shape), 0});
    }
    if (kind_ != Kind::named) return;

    const PartitionSpec spec = spec_.canonical(mesh_, ndim);
    if (uneven_ == Uneven::ceil) return;
    const TileMap map(mesh_, spec);
    std::vector<std::string> faults;
    ErrorFacts facts;
    for (int d = 0; d < ndim; ++d) {
      if (shape[d] % map.tiles[d] == 0) continue;
      const auto& axes = spec.entries()[static_cast<std::size_t>(d)];
      if (faults.empty()) facts = {{}, cat("a multiple of ", map.tiles[d]), cat(shape[d]), 0};
      faults.push_back(indivisible(mesh_, axes, d, shape[d], map.tiles[d]));
    }
    if (!faults.empty()) throw usage_error(join_first(faults, 5), facts);
  } catch (const Error& error) {
    throw error.with_prefix(subject);
  }
}

Shard Sharding::shard(const Shape& shape, std::int64_t position) const {
  return shards(shape, {position}).front();
}

std::vector<Shard> Sharding::shards(const Shape& shape, const std::vector<std::int64_t>& positions) const {
  check(shape);
  std::vector<Shard> out;
  out.reserve(positions.size());
  for (const std::int64_t pos : positions) {
    if (pos < 0 || pos >= num_devices()) {
      throw usage_error(cat("mesh position ", pos, " is outside a mesh of ", num_devices(), " devices"));
    }
    out.push_back({pos, devices()[static_cast<std::size_t>(pos)], Box::whole(shape), 0});
  }
  if (kind_ == Kind::named) {
    const TileMap map(mesh_, spec_.canonical(mesh_, shape.size()));
    for (Shard& shard : out) {
      for (int d = 0; d < shape.size(); ++d) {
        std::tie(shard.box.begin[d], shard.box.end[d]) = map.interval(d, shard.position, shape[d]);
      }
      shard.replica_id = map.replica(shard.position);
    }
  } else if (kind_ == Kind::row_tiles) {
    const RowTiles tiles(shape[0], num_devices(), over_decompose_);
    for (Shard& shard : out) std::tie(shard.box.begin[0], shard.box.end[0]) = tiles.device_rows(shard.position);
  } else {
    for (Shard& shard : out) {
      shard.box = boxes_[static_cast<std::size_t>(shard.position)];
      shard.replica_id = box_replicas_[static_cast<std::size_t>(shard.position)];
    }
  }
  return out;
}

std::vector<Shard> Sharding::all_shards(const Shape& shape) const {
  return shards(shape, detail::all_positions(*this));
}

std::vector<Shard> Sharding::local_shards(const Shape& shape, std::int32_t process) const {
  return shards(shape, mesh_.positions_of(process));
}

std::vector<std::int64_t> Sharding::tiles(int ndim, const std::vector<std::int64_t>& positions) const {
  if (kind_ == Kind::row_tiles) return positions;
  std::vector<std::int64_t> out;
  out.reserve(positions.size());
  if (kind_ == Kind::boxes) {
    for (const std::int64_t pos : positions) out.push_back(box_tiles_[static_cast<std::size_t>(pos)]);
    return out;
  }
  const TileMap map(mesh_, spec_.canonical(mesh_, ndim));
  for (const std::int64_t pos : positions) out.push_back(map.flat_tile(pos));
  return out;
}

Dims Sharding::tiles_per_dim(int ndim) const {
  if (kind_ == Kind::boxes) throw usage_error("a sharding by a table of boxes has no number of tiles per dimension");
  if (kind_ == Kind::named) return TileMap(mesh_, spec_.canonical(mesh_, ndim)).tiles;
  Dims out = Dims::filled(ndim, 1);
  if (ndim > 0) out[0] = num_devices();
  return out;
}

Shape Sharding::shard_shape(const Shape& shape) const {
  // Position 0 has mesh coordinates 0 and so tile 0 of every dimension.
  return shard(shape, 0).box.shape();
}

std::int64_t Sharding::replication_factor(int ndim) const {
  if (kind_ == Kind::named) return TileMap(mesh_, spec_.canonical(mesh_, ndim)).replicas;
  if (kind_ == Kind::row_tiles) return 1;
  std::map<std::int64_t, std::int64_t> holders;
  for (std::size_t k = 0; k < boxes_.size(); ++k) {
    if (!boxes_[k].empty()) ++holders[box_tiles_[k]];
  }
  std::int64_t least = num_devices();
  for (const auto& [tile, count] : holders) least = std::min(least, count);
  return least;
}

bool Sharding::is_fully_replicated(int ndim) const {
  if (num_devices() == 1) return true;
  if (kind_ == Kind::row_tiles) return false;
  if (kind_ == Kind::named) return replication_factor(ndim) == num_devices();
  const Box whole = Box::whole(boxes_shape_);
  return std::all_of(boxes_.begin(), boxes_.end(), [&](const Box& box) { return box == whole; });
}

bool Sharding::is_fully_addressable(std::int32_t process) const {
  return std::all_of(devices().begin(), devices().end(),
                     [&](const Device& device) { return device.process == process; });
}

bool Sharding::same_placement(const Sharding& other, int ndim) const {
  if (kind_ != other.kind_ || devices() != other.devices()) return false;
  if (kind_ == Kind::row_tiles) return over_decompose_ == other.over_decompose_;
  if (kind_ == Kind::boxes) return boxes_shape_ == other.boxes_shape_ && boxes_ == other.boxes_;
  const TileMap mine(mesh_, spec_.canonical(mesh_, ndim));
  const TileMap theirs(other.mesh_, other.spec_.canonical(other.mesh_, ndim));
  if (!(mine.tiles == theirs.tiles)) return false;
  if (mine.replicas == num_devices()) return true;
  if (uneven_ != other.uneven_) return false;
  const auto positions = detail::all_positions(*this);
  return std::all_of(positions.begin(), positions.end(),
                     [&](std::int64_t pos) { return mine.flat_tile(pos) == theirs.flat_tile(pos); });
}

}  // namespace loadstone
