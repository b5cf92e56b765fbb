// A whole safetensors file: length, JSON, offsets against the size of the file.
#include "tests/fuzz/discovered.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  loadstone::fuzz::discover_bytes("safetensors", data, size);
  return 0;
}
