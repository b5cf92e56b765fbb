// A whole .npy file: magic, lengths, the dictionary, what it claims against the size of the file.
#include <vector>

#include "loadstone/format/format.h"
#include "tests/fakes/memory_source.h"
#include "tests/fuzz/fuzz.h"

using namespace loadstone;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Format& format = *find_format("npy");
  fakes::MemorySources files;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  files.put("a.npy", std::vector<std::byte>(bytes, bytes + size));
  fuzz::only_blames_input([&] {
    for (const Header& header : format.discover(*files.open("a.npy"), {})) {
      const std::int64_t payload = header.dtype.nbytes(num_elems(header.shape));
      fuzz::require(header.offset_bytes >= 10 && payload >= 0);
      fuzz::require(header.offset_bytes + payload <= static_cast<std::int64_t>(size));
    }
  });
  return 0;
}
