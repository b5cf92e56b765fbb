#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/safetensors_header.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

// Headers of real models reach 126 MB; the reference reader stops at 100 MB.
constexpr std::int64_t kMaxHeader = std::int64_t{512} << 20;

/// There is no magic: 8 bytes of length, blanks perhaps, then an object.
bool recognise(std::span<const std::byte> head) {
  if (head.size() < 10) return false;
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + 8, head.size() - 8);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return false;
  const std::size_t second = text.find_first_not_of(" \t\r\n", first + 1);
  return second != std::string_view::npos && (text[second] == '"' || text[second] == '}');
}

std::int64_t header_bytes(ByteSource& source) {
  const std::string_view path = source.path();
  const std::int64_t size = source.stamp().size_bytes;
  if (size < 8) {
    throw file_error(path, cat("truncated safetensors file: expected at least 8 bytes, found ", size),
                     "at least 8 bytes", cat(size, " bytes"));
  }
  std::array<std::byte, 8> prefix{};
  source.read(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t i = prefix.size(); i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
  const auto room = static_cast<std::uint64_t>(size - 8);
  if (length > room) {
    throw file_error(path, cat("the header claims ", length, " bytes: expected at most ", room, " in a file of ", size),
                     cat("at most ", room, " bytes"), cat(length, " bytes"));
  }
  if (length > static_cast<std::uint64_t>(kMaxHeader)) {
    throw file_error(path, cat("the header of ", length, " bytes is above the limit of ", kMaxHeader),
                     cat("at most ", kMaxHeader, " bytes"), cat(length, " bytes"));
  }
  return static_cast<std::int64_t>(length);
}

/// Where a tensor may be that this file lacks: an index beside it says so.
std::string index_hint(std::string_view path) {
  const std::string folder(folder_of(path));
  try {
    for (const std::string& name : list_folder(folder.empty() ? "." : folder)) {
      if (name.ends_with(".safetensors.index.json")) {
        return cat("; ", in_quotes(join_path(folder, name)), " says which file holds which tensor: load that");
      }
    }
  } catch (const Error&) {
    return {};  // only a hint
  }
  return {};
}

std::vector<Header> discover(ByteSource& source, const ReadHints& hints) {
  const std::string_view path = source.path();
  const std::int64_t length = header_bytes(source);
  std::string json(static_cast<std::size_t>(length), '\0');
  source.read(8, std::as_writable_bytes(std::span(json)));
  std::vector<SafeTensor> tensors;
  try {
    tensors = parse_safetensors_header(json, source.stamp().size_bytes - 8 - length);
  } catch (const Error& error) {
    throw as_file_error(path, error);
  }
  std::vector<std::string> names;
  for (const SafeTensor& tensor : tensors) names.push_back(tensor.name);
  for (const std::string& name : hints.arrays) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      require_arrays(path, {name}, names, index_hint(path));
    }
  }
  std::vector<Header> out;
  for (SafeTensor& tensor : tensors) {
    if (!is_wanted(hints.arrays, tensor.name)) continue;
    Header header;
    header.name = std::move(tensor.name);
    header.dtype = tensor.dtype;
    header.shape = std::move(tensor.shape);
    header.offset_bytes = 8 + length + tensor.begin;
    out.push_back(std::move(header));
  }
  return out;
}

}  // namespace

extern const Format safetensors_format;
const Format safetensors_format{"safetensors", {".safetensors"}, recognise, discover, nullptr, false};

}  // namespace loadstone
