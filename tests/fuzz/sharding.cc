// Three lines: mesh, spec, devices. What is accepted must make a sharding whose tiles lie inside the array.
#include <algorithm>
#include <utility>

#include "loadstone/shard/sharding.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest = fuzz::text_of(data, size);
  const auto line = [&rest] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view out = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return out;
  };
  const std::string_view mesh = line();
  const std::string_view spec = line();
  const std::string_view devices = line();
  fuzz::only_blames_input([&] { parse_devices(devices); });
  fuzz::only_blames_input([&] {
    auto [names, sizes] = parse_mesh(mesh);
    const PartitionSpec parsed = parse_spec(spec);
    std::int64_t count = 1;
    for (int d = 0; d < sizes.size(); ++d) {
      if (sizes[d] > 64) return;  // any size is well, but a mesh of millions is slow to make
      count *= sizes[d];
      if (count > 64) return;
    }
    const Sharding sharding(Mesh::of_cpus(std::move(names), sizes), parsed, Uneven::ceil);
    const Shape shape{7, 5, 3};
    for (const Shard& shard : sharding.all_shards(shape)) {
      for (int d = 0; d < shape.size(); ++d) {
        fuzz::require(0 <= shard.box.begin[d] && shard.box.begin[d] <= shard.box.end[d] &&
                      shard.box.end[d] <= shape[d]);
      }
    }
  });
  return 0;
}
