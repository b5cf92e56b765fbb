// zarr 2 and 3 in folders. One array lies at the root of the store, several in a group.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/writers/writer.h"

namespace loadstone {

namespace {

using Json = nlohmann::ordered_json;

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) == 0 || errno == EEXIST) return;
  if (errno != ENOENT) throw errno_error(errno, path, "cannot make the directory");
  make_folder(std::string(folder_of(path)));
  make_folder(path);
}

/// A new file in a store that nobody sees yet: no temporary name, no sync of its own.
void put(const std::string& path, const void* data, std::size_t bytes) {
  const auto open_new = [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); };
  int fd = open_new();
  if (fd < 0 && errno == ENOENT) {
    make_folder(std::string(folder_of(path)));
    fd = open_new();
  }
  if (fd < 0) throw errno_error(errno, path, "cannot create");
  const char* from = static_cast<const char*>(data);
  int failed = 0;
  while (bytes > 0 && failed == 0) {
    const ssize_t n = ::write(fd, from, std::min<std::size_t>(bytes, 0x7ffff000));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      failed = n < 0 ? errno : ENOSPC;
    } else {
      from += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  if (::close(fd) != 0 && failed == 0 && errno != EINTR) failed = errno;
  if (failed != 0) throw errno_error(failed, path, "cannot write");
}

void put_json(const std::string& folder, std::string_view name, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  put(join_path(folder, name), text.data(), text.size());
}

bool is_complex(DType dtype) {
  return dtype == dtypes::kComplex64 || dtype == dtypes::kComplex128;
}

Json fill(DType dtype, bool v3) {
  if (is_complex(dtype)) return v3 ? Json::array({0.0, 0.0}) : Json();
  if (dtype == dtypes::kBool) return false;
  return dtype.code == dtypes::kFloat32.code || dtype.code == dtypes::kBFloat16.code ? Json(0.0) : Json(0);
}

Json dims(const Shape& shape) {
  Json out = Json::array();
  for (const std::int64_t extent : shape) out.push_back(extent);
  return out;
}

std::string codec_of(const StorageOptions& storage) {
  return storage.compress == "none" ? "" : storage.compress;
}

int level_of(const StorageOptions& storage) {
  if (storage.level >= 0) return std::min(storage.level, storage.compress == "zstd" ? 22 : 9);
  return storage.compress == "zstd" ? 3 : 5;
}

Json array_v3(const NewArray& array, const StorageOptions& storage, const Shape& chunk) {
  Json bytes{{"name", "bytes"}};
  if (array.dtype.swap_bytes() > 1) bytes["configuration"] = {{"endian", "little"}};
  Json codecs = Json::array({bytes});
  if (const std::string codec = codec_of(storage); !codec.empty()) {
    Json settings{{"level", level_of(storage)}};
    if (codec == "zstd") settings["checksum"] = false;
    codecs.push_back({{"name", codec}, {"configuration", settings}});
  }
  return {{"zarr_format", 3},
          {"node_type", "array"},
          {"shape", dims(array.shape)},
          {"data_type", to_string(array.dtype)},
          {"chunk_grid", {{"name", "regular"}, {"configuration", {{"chunk_shape", dims(chunk)}}}}},
          {"chunk_key_encoding", {{"name", "default"}, {"configuration", {{"separator", "/"}}}}},
          {"fill_value", fill(array.dtype, true)},
          {"codecs", codecs},
          {"attributes", Json::object()},
          {"storage_transformers", Json::array()}};
}

Json array_v2(const NewArray& array, const StorageOptions& storage, const Shape& chunk) {
  Json compressor;
  if (const std::string codec = codec_of(storage); !codec.empty()) {
    compressor = {{"id", codec}, {"level", level_of(storage)}};
  }
  return {{"zarr_format", 2},
          {"shape", dims(array.shape)},
          {"chunks", dims(chunk)},
          {"dtype", numpy_typestr(array.dtype)},
          {"compressor", compressor},
          {"fill_value", fill(array.dtype, false)},
          {"order", "C"},
          {"filters", nullptr},
          {"dimension_separator", "."}};
}

std::string chunk_key(const Dims& index, bool v3) {
  std::string key = v3 ? "c" : "";
  for (int d = 0; d < index.size(); ++d) {
    if (!key.empty()) key += v3 ? "/" : ".";
    key += std::to_string(index[d]);
  }
  return key.empty() ? "0" : key;
}

void write_array(const NewFile& file, std::size_t a, const std::string& folder, bool v3) {
  const NewArray& array = file.arrays[a];
  const Shape chunk = chunk_shape(array, file.storage);
  make_folder(folder);
  put_json(folder, v3 ? "zarr.json" : ".zarray",
           v3 ? array_v3(array, file.storage, chunk) : array_v2(array, file.storage, chunk));
  const std::string codec = codec_of(file.storage);
  std::vector<std::byte> plain;
  for_each_chunk(array.shape, chunk, [&](const Dims& index, const Box& box) {
    pull_chunk(file, a, box, chunk, plain);
    const std::string path = join_path(folder, chunk_key(index, v3));
    if (codec.empty()) return put(path, plain.data(), plain.size());
    const std::vector<std::byte> packed = compress(codec, level_of(file.storage), plain);
    put(path, packed.data(), packed.size());
  });
}

void write_store(const NewFile& file, const std::string& folder, bool v3) {
  if (file.arrays.size() == 1) return write_array(file, 0, folder, v3);
  const Json group =
      v3 ? Json{{"zarr_format", 3}, {"node_type", "group"}, {"attributes", Json::object()}} : Json{{"zarr_format", 2}};
  std::set<std::string> groups{""};
  for (const NewArray& array : file.arrays) {
    for (std::size_t slash = array.name.find('/'); slash != std::string::npos;
         slash = array.name.find('/', slash + 1)) {
      groups.insert(array.name.substr(0, slash));
    }
  }
  for (const std::string& name : groups) {
    const std::string path = name.empty() ? folder : join_path(folder, name);
    make_folder(path);
    put_json(path, v3 ? "zarr.json" : ".zgroup", group);
  }
  for (std::size_t a = 0; a < file.arrays.size(); ++a) {
    write_array(file, a, join_path(folder, file.arrays[a].name), v3);
  }
}

std::string refusal(const NewArray& array) {
  if (printable(array.name) != array.name) return "its name is no plain text";
  for (const std::string& part : split(array.name, '/')) {
    if (part.empty() || part.starts_with(".") || part.starts_with("__") || part == "zarr.json") {
      return "its name is no path of zarr";
    }
  }
  return "";
}

std::string refusal_v2(const NewArray& array) {
  return numpy_typestr(array.dtype).empty() ? "zarr 2 has no such type" : refusal(array);
}

std::string refusal_v3(const NewArray& array) {
  const DType t = array.dtype;
  const bool known = t == dtypes::kBFloat16 || (!numpy_typestr(t).empty() && t.lanes == 1);
  return known ? refusal(array) : "zarr 3 has no such type";
}

std::int64_t memory(const NewFile& file) {
  std::int64_t most = 0;
  for (const NewArray& array : file.arrays) {
    most = std::max(most, 3 * array.dtype.nbytes(num_elems(chunk_shape(array, file.storage))));
  }
  return most;
}

void write_v2(const NewFile& file, const std::string& folder) {
  write_store(file, folder, false);
}

void write_v3(const NewFile& file, const std::string& folder) {
  write_store(file, folder, true);
}

}  // namespace

extern const Writer zarr_writer, zarr2_writer;
const Writer zarr_writer{.name = "zarr",
                         .extension = ".zarr",
                         .several = true,
                         .chunked = true,
                         .codecs = {"gzip", "zstd"},
                         .refusal = refusal_v3,
                         .memory = memory,
                         .write_store = write_v3};
const Writer zarr2_writer{.name = "zarr2",
                          .extension = ".zarr",
                          .several = true,
                          .chunked = true,
                          .codecs = {"zlib", "gzip", "zstd"},
                          .refusal = refusal_v2,
                          .memory = memory,
                          .write_store = write_v2};

}  // namespace loadstone
