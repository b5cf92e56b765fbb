// From a directory of shard files to proven shards on eight devices.
// Usage: quickstart DIR, where DIR is a data set made by `loadstone write DIR --shape 4096,1024 --shards 9 --uneven`.
#include <cstdio>

#include "loadstone/load.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: quickstart DIR\n");
    return 2;
  }
  try {
    const loadstone::Catalog catalog = loadstone::open({argv[1]});
    std::fputs(loadstone::to_string(catalog).c_str(), stdout);

    // Rows over the mesh axis x, columns over y: eight boxes on eight CPU devices.
    const loadstone::Sharding sharding(loadstone::Mesh::of_cpus({"x", "y"}, {2, 4}), loadstone::parse_spec("x,y"));
    loadstone::LoadOptions options;
    options.verify = loadstone::VerifyMode::full;
    const loadstone::LoadResult result = loadstone::load(catalog, {{.array = 0, .sharding = sharding}}, options);

    for (const loadstone::PlacedShard& placed : result.placement.shards) {
      std::printf("%s holds %s\n", loadstone::place_name(placed.shard.device).c_str(),
                  loadstone::to_string(placed.shard.box).c_str());
    }
    std::printf("%s\n", result.verdict->ok() ? "verified" : loadstone::to_string(*result.verdict).c_str());
    return result.verdict->ok() ? 0 : 1;
  } catch (const loadstone::Error& error) {
    std::fprintf(stderr, "quickstart: %s\n", error.what());
    return error.kind() == loadstone::ErrorKind::data ? 3 : 2;
  }
}
