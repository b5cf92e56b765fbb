// A --files-from list, read from a real file, as read_file_list() takes nothing else.
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "loadstone/base/cat.h"
#include "loadstone/format/gather.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Without a name, so that nothing is left behind however the fuzzer ends.
  static const std::string path = cat("/proc/self/fd/", ::memfd_create("list", 0));
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || (size > 0 && std::fwrite(data, 1, size, file) != size) || std::fclose(file) != 0) std::abort();
  fuzz::only_blames_input([] {
    for (const std::string& name : read_file_list(path)) fuzz::require(!name.empty());
  });
  return 0;
}
