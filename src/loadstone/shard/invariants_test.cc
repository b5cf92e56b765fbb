// Properties that every mesh, spec and shape must have, on a few thousand random ones.
#include <map>
#include <random>
#include <set>

#include "loadstone/shard/test_helpers.h"

namespace loadstone {
namespace {

struct Sample {
  Sharding sharding;
  Shape shape;
  std::string text;
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(n)); }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t k = values.size(); k > 1; --k) {
      std::swap(values[k - 1], values[static_cast<std::size_t>(below(static_cast<std::int64_t>(k)))]);
    }
  }

 private:
  std::mt19937_64 engine_;
};

// Up to 4 axes of 1 to 4, up to 3 dimensions, devices in any order, 1 to 4 devices a process; each axis splits a random
// dimension or none. Even: every size is a multiple, now and then 0.
Sample draw(Dice& dice, Uneven uneven) {
  const int num_axes = static_cast<int>(1 + dice.below(4));
  const int ndim = static_cast<int>(dice.below(4));
  std::vector<std::string> names;
  Dims sizes;
  for (int a = 0; a < num_axes; ++a) {
    names.push_back(std::string(1, static_cast<char>('a' + a)));
    sizes.push_back(1 + dice.below(4));
  }
  std::vector<std::int64_t> ids = test::iota(num_elems(sizes));
  if (dice.below(2) == 0) dice.shuffle(ids);

  std::vector<std::string> order = names;
  dice.shuffle(order);
  std::vector<PartitionSpec::Entry> entries(static_cast<std::size_t>(ndim));
  Dims tiles = Dims::filled(ndim, 1);
  for (const std::string& name : order) {
    const int dim = static_cast<int>(dice.below(ndim + 1));
    if (dim == ndim) continue;
    entries[static_cast<std::size_t>(dim)].push_back(name);
    tiles[dim] *= sizes[static_cast<int>(name[0] - 'a')];
  }
  Shape shape;
  for (int d = 0; d < ndim; ++d) {
    shape.push_back(uneven == Uneven::ceil ? dice.below(14) : tiles[d] * (dice.below(9) == 0 ? 0 : 1 + dice.below(2)));
  }
  const PartitionSpec spec(entries);
  const std::int64_t per_process = 1 + dice.below(4);
  Mesh mesh = Mesh::simulated(names, sizes, ids, per_process);
  const std::string text =
      cat(to_string(mesh), " ", to_string(spec), " ", to_string(shape), ", ", per_process, " devices a process");
  return {Sharding(std::move(mesh), spec, uneven), shape, text};
}

// How often each element of the array lies in one of the boxes.
std::vector<int> paint(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> canvas(static_cast<std::size_t>(num_elems(shape)), 0);
  const Dims strides = c_strides(shape);
  for (const Box& box : boxes) {
    if (box.empty()) continue;
    Dims index = box.begin;
    for (;;) {
      std::int64_t at = 0;
      for (int d = 0; d < shape.size(); ++d) at += index[d] * strides[d];
      ++canvas[static_cast<std::size_t>(at)];
      int d = shape.size() - 1;
      for (; d >= 0; --d) {
        if (++index[d] < box.end[d]) break;
        index[d] = box.begin[d];
      }
      if (d < 0) break;
    }
  }
  return canvas;
}

void check_cover_and_replicas(const Sample& sample) {
  const auto& [sharding, shape, text] = sample;
  const std::vector<Shard> shards = sharding.all_shards(shape);
  const std::int64_t factor = sharding.replication_factor(shape.size());
  std::vector<Box> distinct;
  std::int64_t devices = 0;
  for (const HeldBox& held : unique_boxes(sharding, shape)) {
    distinct.push_back(held.box);
    devices += static_cast<std::int64_t>(held.positions.size());
    ASSERT_EQ(static_cast<std::int64_t>(held.positions.size()), factor);
    for (std::size_t r = 0; r < held.positions.size(); ++r) {
      const Shard& shard = shards[static_cast<std::size_t>(held.positions[r])];
      ASSERT_EQ(shard.box, held.box);
      ASSERT_EQ(shard.replica_id, static_cast<std::int64_t>(r));
    }
  }
  ASSERT_EQ(devices, sharding.num_devices());
  const std::vector<int> canvas = paint(shape, distinct);
  ASSERT_TRUE(std::all_of(canvas.begin(), canvas.end(), [](int count) { return count == 1; }));
}

void check_second_formulation(const Sample& sample) {
  const auto& [sharding, shape, text] = sample;
  const TileAssignment assignment = tile_assignment(sharding.mesh(), sharding.spec(), shape.size());
  const Dims tiles = sharding.tiles_per_dim(shape.size());
  ASSERT_EQ(assignment.dims.size(), shape.size() + 1);
  const std::int64_t replicas = assignment.dims.back();
  ASSERT_EQ(replicas, sharding.replication_factor(shape.size()));
  ASSERT_EQ(static_cast<std::int64_t>(assignment.positions.size()), sharding.num_devices());
  const std::vector<Shard> shards = sharding.shards(shape, assignment.positions);
  for (std::size_t k = 0; k < shards.size(); ++k) {
    const Shard& shard = shards[k];
    std::int64_t tile = static_cast<std::int64_t>(k) / replicas;
    ASSERT_EQ(shard.replica_id, static_cast<std::int64_t>(k) % replicas);
    for (int d = shape.size() - 1; d >= 0; --d) {
      const std::int64_t c = tile % tiles[d];
      tile /= tiles[d];
      const std::int64_t length = (shape[d] + tiles[d] - 1) / tiles[d];
      ASSERT_EQ(shard.box.begin[d], std::min(c * length, shape[d]));
      ASSERT_EQ(shard.box.end[d], std::min((c + 1) * length, shape[d]));
    }
  }
}

void check_processes(const Sample& sample) {
  const auto& [sharding, shape, text] = sample;
  std::map<std::int32_t, std::vector<Shard>> by_process;
  for (const Shard& shard : sharding.all_shards(shape)) by_process[shard.device.process].push_back(shard);
  const std::vector<int> whole = paint(shape, {Box::whole(shape)});
  std::map<std::set<Box>, std::vector<std::int32_t>> groups;
  for (const auto& [process, local] : by_process) {
    ASSERT_EQ(sharding.local_shards(shape, process), local);
    std::set<Box> boxes;
    for (const Shard& shard : local) {
      if (!shard.box.empty()) boxes.insert(shard.box);
    }
    const std::vector<Box> list(boxes.begin(), boxes.end());
    ASSERT_EQ(paint(shape, merge_boxes(list)), paint(shape, list));
    ASSERT_EQ(process_has_all(sharding, shape, process), paint(shape, list) == whole);

    const Shape sums = num_addressable(sharding, shape, process);
    for (int d = 0; d < shape.size(); ++d) {
      std::set<std::int64_t> held;
      for (const Shard& shard : local) {
        for (std::int64_t i = shard.box.begin[d]; i < shard.box.end[d]; ++i) held.insert(i);
      }
      ASSERT_EQ(sums[d], static_cast<std::int64_t>(held.size()));
    }
    if (!boxes.empty()) groups[boxes].push_back(process);
  }
  test::Groups expected;
  for (const auto& [boxes, processes] : groups) expected.push_back(processes);
  ASSERT_EQ(load_groups(sharding, shape), expected);
}

// An explicit table of the same boxes is the same sharding, but for replicas of empty boxes.
void check_as_table(const Sample& sample) {
  const auto& [sharding, shape, text] = sample;
  std::vector<Box> boxes;
  for (const Shard& shard : sharding.all_shards(shape)) boxes.push_back(shard.box);
  std::vector<Shard> expected = sharding.all_shards(shape);
  for (Shard& shard : expected) {
    if (shard.box.empty()) shard.replica_id = 0;
  }
  ASSERT_EQ(Sharding::from_boxes(sharding.devices(), shape, boxes).all_shards(shape), expected);
}

// covers: sharding R4, sharding R14, sharding R15
TEST(Invariants, EvenShardings) {
  Dice dice(1);
  for (int round = 0; round < 1500; ++round) {
    const Sample sample = draw(dice, Uneven::error);
    SCOPED_TRACE(sample.text);
    ASSERT_NO_FATAL_FAILURE(check_cover_and_replicas(sample));
    ASSERT_NO_FATAL_FAILURE(check_second_formulation(sample));
    ASSERT_NO_FATAL_FAILURE(check_processes(sample));
    ASSERT_NO_FATAL_FAILURE(check_as_table(sample));
    const Sharding ceil(sample.sharding.mesh(), sample.sharding.spec(), Uneven::ceil);
    ASSERT_EQ(ceil.all_shards(sample.shape), sample.sharding.all_shards(sample.shape));
    for (const Shard& shard : sample.sharding.all_shards(sample.shape)) {
      ASSERT_EQ(shard.box.shape(), sample.sharding.shard_shape(sample.shape));
    }
  }
}

TEST(Invariants, UnevenShardings) {
  Dice dice(2);
  for (int round = 0; round < 1500; ++round) {
    const Sample sample = draw(dice, Uneven::ceil);
    SCOPED_TRACE(sample.text);
    ASSERT_NO_FATAL_FAILURE(check_cover_and_replicas(sample));
    ASSERT_NO_FATAL_FAILURE(check_second_formulation(sample));
    ASSERT_NO_FATAL_FAILURE(check_processes(sample));
    ASSERT_NO_FATAL_FAILURE(check_as_table(sample));
  }
}

// covers: sharding R25
TEST(Invariants, RolesAreGroupRanksWhereOnlyOneDimensionIsSplit) {
  Dice dice(3);
  int uniform = 0;
  for (int round = 0; round < 2000; ++round) {
    const Sample sample = draw(dice, Uneven::error);
    const auto& [sharding, shape, text] = sample;
    SCOPED_TRACE(text);
    if (shape.empty() || num_elems(shape) == 0) continue;
    const Dims tiles = sharding.tiles_per_dim(shape.size());
    if (std::count_if(tiles.begin(), tiles.end(), [](std::int64_t n) { return n > 1; }) > 1) continue;
    const auto split = std::find_if(tiles.begin(), tiles.end(), [](std::int64_t n) { return n > 1; });
    const int dim = split == tiles.end() ? 0 : static_cast<int>(split - tiles.begin());
    const test::Groups groups = load_groups(sharding, shape);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const std::int32_t process : groups[g]) {
        const Shape local = num_addressable(sharding, shape, process);
        const auto inferred = local_to_global_shape(sharding, local, process)[static_cast<std::size_t>(dim)];
        if (!inferred) {
          EXPECT_THROW(process_index_and_count(sharding, shape, dim, process), Error);
          continue;
        }
        ++uniform;
        EXPECT_EQ(*inferred, shape[dim]);
        EXPECT_EQ(process_index_and_count(sharding, shape, dim, process),
                  (std::pair{static_cast<std::int64_t>(g), static_cast<std::int64_t>(groups.size())}));
      }
    }
  }
  EXPECT_GT(uniform, 1000);
}

}  // namespace
}  // namespace loadstone
