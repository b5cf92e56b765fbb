// The shard_meta.json beside raw files.
#include "loadstone/format/sidecar.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::only_blames_input([&] {
    const Sidecar sidecar = parse_sidecar(fuzz::text_of(data, size), "shard_meta.json");
    enough_for_raw(merge_hints(sidecar.hints, sidecar.of("shard_0000.bin")));
  });
  return 0;
}
