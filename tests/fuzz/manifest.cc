// A manifest: what is accepted must print and read back as the same.
#include "loadstone/verify/manifest.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::only_blames_input([&] {
    const Manifest manifest = parse_manifest(fuzz::text_of(data, size), "M.json");
    fuzz::require(parse_manifest(to_json(manifest), "M.json") == manifest);
  });
  return 0;
}
