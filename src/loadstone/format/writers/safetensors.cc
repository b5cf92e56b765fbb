#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "loadstone/base/text.h"
#include "loadstone/format/safetensors_header.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

std::string refusal(const NewArray& array) {
  if (safetensors_type(array.dtype).empty()) return "the format has no such type";
  if (printable(array.name) != array.name) return "its name is no plain text";
  if (array.name == "__metadata__") return "the name is the format's own";
  if (array.dtype.elem_bits() * (num_elems(array.shape) % 8) % 8 != 0) return "its elements fill no whole bytes";
  return "";
}

std::int64_t buffer(const NewFile& file) {
  std::int64_t most = kPullBytes;
  for (const NewArray& array : file.arrays) {
    if (array.dtype.whole_bytes() || array.shape.empty() || array.shape[0] == 0) continue;
    most = std::max(most, bytes_of(array) / array.shape[0] * 8 + kPullBytes);
  }
  return most;
}

void write_safetensors(const NewFile& file, FileWriter& out) {
  nlohmann::ordered_json root = nlohmann::ordered_json::object();
  std::int64_t end = 0;
  for (const NewArray& array : file.arrays) {
    nlohmann::ordered_json shape = nlohmann::ordered_json::array();
    for (const std::int64_t extent : array.shape) shape.push_back(extent);
    const std::int64_t begin = end;
    end += bytes_of(array);
    root[array.name] = {{"dtype", safetensors_type(array.dtype)}, {"shape", shape}, {"data_offsets", {begin, end}}};
  }
  std::string header = root.dump();
  header.append((8 - header.size() % 8) % 8, ' ');  // so that the elements are aligned, as the reference does
  std::uint64_t size = header.size();
  std::string prefix;
  for (int i = 0; i < 8; ++i, size >>= 8U) prefix.push_back(static_cast<char>(size & 0xFFU));
  header.insert(0, prefix);
  out.write(header.data(), header.size());
  for (std::size_t a = 0; a < file.arrays.size(); ++a) {
    pull_in_order(file, a, [&](std::span<const std::byte> bytes) { out.write(bytes.data(), bytes.size()); });
  }
}

}  // namespace

extern const Writer safetensors_writer;
const Writer safetensors_writer{.name = "safetensors",
                                .extension = ".safetensors",
                                .several = true,
                                .codecs = {},
                                .refusal = refusal,
                                .memory = buffer,
                                .write = write_safetensors};

}  // namespace loadstone
