#include "loadstone/format/sniff.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

namespace {

struct Magic {
  std::string_view bytes;
  std::string_view what;
  std::string_view data_format;
};

using std::string_view_literals::operator""sv;

constexpr std::array<Magic, 18> kMagics{{
    {"\x93NUMPY"sv, "npy", ""},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file", "hdf5"},
    {"PAR1"sv, "a Parquet file", "parquet"},
    {"ARROW1"sv, "an Arrow file", "arrow"},
    {"FEA1"sv, "a Feather V1 file", "arrow"},
    {"version https://git-lfs"sv, "a Git LFS pointer, not the data (run 'git lfs pull')", ""},
    {"\x1f\x8b"sv, "gzip-compressed data", ""},
    {"BZh"sv, "bzip2-compressed data", ""},
    {"\xfd\x37zXZ"sv, "xz-compressed data", ""},
    {"\x28\xb5\x2f\xfd"sv, "zstd-compressed data", ""},
    {"\x04\x22\x4d\x18"sv, "lz4-compressed data", ""},
    {"CDF\x01"sv, "a netCDF classic file", ""},
    {"CDF\x02"sv, "a netCDF classic file", ""},
    {"MATLAB "sv, "a MATLAB file", ""},
    {"\x80\x02"sv, "a Python pickle, which is never loaded", ""},
    {"\x80\x03"sv, "a Python pickle, which is never loaded", ""},
    {"\x80\x04"sv, "a Python pickle, which is never loaded", ""},
    {"\x80\x05"sv, "a Python pickle, which is never loaded", ""},
}};

bool looks_like_safetensors(std::string_view text, std::int64_t size_bytes) {
  if (text.size() < 10 || text[8] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  return size_bytes >= 8 && length <= static_cast<std::uint64_t>(size_bytes - 8);
}

bool is_text(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 || byte == '\n' || byte == '\r' || byte == '\t';
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

Sniffed sniff(std::span<const std::byte> head, std::int64_t size_bytes, std::string_view name) {
  if (size_bytes == 0) return {"an empty file (0 bytes)", ""};
  const std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const std::string extension = extension_of(name);
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) {
    const bool npz = extension == ".npz" || text.substr(0, 256).find(".npy") != std::string_view::npos;
    return {npz ? "an npz file (a zip archive of npy files)" : "a zip archive", npz ? "npz" : ""};
  }
  for (const Magic& magic : kMagics) {
    if (text.starts_with(magic.bytes)) return {std::string(magic.what), magic.data_format};
  }
  if (looks_like_safetensors(text, size_bytes)) return {"a safetensors file", "safetensors"};
  const std::string front = lower(text.substr(0, 64));
  const std::size_t mark = front.find_first_not_of(" \t\r\n");
  if (mark != std::string::npos) {
    const std::string_view start = std::string_view(front).substr(mark);
    if (start.starts_with("<!doctype") || start.starts_with("<html")) return {"an HTML page", ""};
    if (start.starts_with("<?xml")) return {"an XML document", ""};
  }
  if (std::all_of(text.begin(), text.end(), [](char c) { return c == '\0'; })) return {"zeros only", ""};
  if (is_text(text)) return {"text", ""};
  return {cat("a file that begins with the bytes ", printable(text.substr(0, 8))), "", false};
}

std::string_view base_name(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos || path.size() == 1 ? path : path.substr(slash + 1);
}

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  return path.substr(0, slash == 0 ? 1 : slash);
}

std::string extension_of(std::string_view path) {
  const std::string_view name = base_name(path);
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  return lower(name.substr(dot));
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string out(folder);
  if (!out.empty() && out.back() != '/') out.push_back('/');
  return out.append(name);
}

}  // namespace loadstone
