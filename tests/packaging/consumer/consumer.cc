// A program of a user's: loads a directory over four devices, proves it, and catches an error of each way of failing.
#include <loadstone/load.h>

#include <cstdio>
#include <cstring>

using namespace loadstone;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const Catalog catalog = open({argv[1]});
  LoadOptions options;
  options.verify = VerifyMode::full;
  const Sharding sharding(Mesh::of_cpus({"x", "y"}, {2, 2}), parse_spec("x,y"));
  const LoadResult result = load(catalog, {{0, sharding}}, options);
  if (!result.verdict || !result.verdict->ok()) return 1;
  for (const PlacedShard& shard : result.placement.shards) {
    std::printf("%s %s %lld bytes\n", place_name(shard.shard.device).c_str(), to_string(shard.shard.box).c_str(),
                static_cast<long long>(shard.data.nbytes()));
  }

  try {
    open({"/nothing/here.npy"});
    return 3;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::system || error.facts().os_error == 0) return 4;
    std::printf("caught: %s\n", error.what());
  }
  try {
    throw_if_requested(nullptr);
    load(catalog, {{0, Sharding(Mesh::of_cpus({"x"}, {7}), parse_spec("x"))}});
    return 5;
  } catch (const std::exception& error) {
    if (std::strstr(error.what(), "does not divide") == nullptr) return 6;
  }
  std::printf("version %s\n", version());
  return 0;
}
