#include <bit>
#include <string>
#include <string_view>

#include "loadstone/plan/plan.h"

namespace loadstone {
namespace {

/// Two independent 64-bit hashes of the same bytes: FNV-1a, and one that rotates, so that they do not collide together.
class Hasher {
 public:
  void number(std::int64_t value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) byte(static_cast<unsigned char>(bits & 0xff));
  }
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    for (const char c : value) byte(static_cast<unsigned char>(c));
  }
  void dims(const Dims& value) {
    number(value.size());
    for (const std::int64_t v : value) number(v);
  }
  std::string hex() const {
    std::string out;
    for (const std::uint64_t word : {a_, b_}) {
      for (int shift = 60; shift >= 0; shift -= 4) out.push_back("0123456789abcdef"[(word >> shift) & 15]);
    }
    return out;
  }

 private:
  void byte(unsigned char value) {
    a_ = (a_ ^ value) * 0x100000001b3ULL;
    b_ = std::rotl(b_ + value + 1, 23) * 0x9e3779b97f4a7c15ULL;
  }
  std::uint64_t a_ = 0xcbf29ce484222325ULL;
  std::uint64_t b_ = 0x84222325cbf29ce4ULL;
};

void add_mesh(Hasher& hash, const Mesh& mesh) {
  for (const std::string& name : mesh.axis_names()) hash.text(name);
  hash.dims(mesh.axis_sizes());
  // Kinds of memory count; ordinals and parts are each process's own business.
  for (const Device& device : mesh.devices()) {
    hash.number(device.id);
    hash.number(device.process);
    hash.number(static_cast<std::int64_t>(device.place.kind));
  }
}

void add_sharding(Hasher& hash, const Sharding& sharding, const Shape& shape) {
  hash.number(static_cast<std::int64_t>(sharding.kind()));
  hash.number(static_cast<std::int64_t>(sharding.uneven()));
  hash.number(sharding.over_decompose());
  switch (sharding.kind()) {
    case Sharding::Kind::named: {
      const PartitionSpec spec = sharding.spec().canonical(sharding.mesh(), shape.size());
      for (const PartitionSpec::Entry& entry : spec.entries()) {
        hash.number(static_cast<std::int64_t>(entry.size()));
        for (const std::string& axis : entry) hash.text(axis);
      }
      break;
    }
    case Sharding::Kind::boxes:
      for (const Shard& shard : sharding.all_shards(shape)) {
        hash.dims(shard.box.begin);
        hash.dims(shard.box.end);
      }
      break;
    case Sharding::Kind::row_tiles: break;
  }
}

void add_files(Hasher& hash, const Catalog& catalog, const Tiling& tiling) {
  hash.number(tiling.num_pieces());
  for (const std::int64_t row : tiling.row_bounds()) hash.number(row);
  for (std::int64_t part = 0; part < tiling.num_parts(); ++part) {
    const std::int32_t file = tiling.file_of(part);
    hash.number(file >= 0 && file < catalog.files.size() ? catalog.files.stamp(file).size_bytes : -1);
  }
}

}  // namespace

std::string fingerprint(const Catalog& catalog, const Plan& plan) {
  Hasher hash;
  hash.text("loadstone plan 1");
  // What was asked for, not what was chosen: with `auto` each process may choose for itself.
  hash.text(to_string(plan.options.strategy));
  const Mesh* previous = nullptr;
  for (const PlannedArray& array : plan.arrays) {
    hash.text(array.name);
    hash.text(to_string(array.dtype));
    hash.dims(array.shape);
    add_sharding(hash, array.sharding, array.shape);
    const bool same = previous != nullptr && *previous == array.sharding.mesh();
    hash.number(same ? 1 : 0);
    if (!same) add_mesh(hash, array.sharding.mesh());
    previous = &array.sharding.mesh();
    add_files(hash, catalog, catalog.arrays[static_cast<std::size_t>(array.catalog_index)].tiling);
  }
  return hash.hex();
}

}  // namespace loadstone
