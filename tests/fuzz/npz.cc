// A whole npz file: the zip directory, local headers, npy headers behind deflate, the members unpacked.
#include "tests/fuzz/discovered.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  loadstone::fuzz::discover_bytes("npz", data, size);
  return 0;
}
