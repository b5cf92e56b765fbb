// A whole Arrow IPC file: footer, schema, record batches, buffers unpacked.
#include "tests/fuzz/discovered.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  loadstone::fuzz::discover_bytes("arrow", data, size);
  return 0;
}
