#include "loadstone/format/zarr_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"

namespace loadstone::zarr {

namespace {

constexpr int kMaxDepth = 32;  // of groups

Json load(const std::string& path, ByteSourceFactory& sources) {
  try {
    return parse_metadata(*sources.open(path));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data || !error.facts().file.empty()) throw;
    throw as_file_error(path, error);
  }
}

/// "array" or "group".
std::string node_type(const Json& json, const std::string& path) {
  const Json kind = json.value("node_type", Json());
  if (json.value("zarr_format", Json()) != 3 || (kind != "array" && kind != "group")) {
    throw file_error(path, "is not the metadata of a zarr 3 array or group");
  }
  return kind.get<std::string>();
}

/// A name that stays inside the store: parts without "", "." and "..".
bool is_inside(std::string_view name) {
  for (;;) {
    const std::size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string_view::npos) return false;
    if (slash == name.size()) return true;
    name.remove_prefix(slash + 1);
  }
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    if (it->is_directory(failed)) out.push_back(it->path().filename().string());
  }
  if (failed) throw errno_error(failed.value(), folder, "cannot list");
  std::sort(out.begin(), out.end());
  return out;
}

class Finder {
 public:
  Finder(const std::string& root, ByteSourceFactory& sources) : root_(root), sources_(sources) {}

  void walk(const std::string& folder, const std::string& name, int depth) {
    if (depth > kMaxDepth) throw file_error(folder, cat("groups are nested deeper than ", kMaxDepth));
    const std::string v3 = join_path(folder, "zarr.json"), v2 = join_path(folder, ".zarray");
    if (exists(v3)) {
      Json json = load(v3, sources_);
      if (node_type(json, v3) == "array") {
        found.push_back({name, folder, v3, std::move(json), true});
        return;
      }
      if (depth == 0 && take_consolidated_v3(json, v3)) return;
    } else if (exists(v2)) {
      found.push_back({name, folder, v2, {}, false});
      return;
    } else if (depth == 0 && take_consolidated_v2()) {
      return;
    }
    for (const std::string& child : folders_in(folder)) {
      const std::string below = join_path(folder, child);
      if (is_store(below)) walk(below, name.empty() ? child : cat(name, "/", child), depth + 1);
    }
  }

  std::vector<Found> found;

 private:
  bool take_consolidated_v3(const Json& json, const std::string& path) {
    const auto it = json.find("consolidated_metadata");
    if (it == json.end() || !it->is_object() || it->value("kind", Json()) != "inline") return false;
    const auto metadata = it->find("metadata");
    if (metadata == it->end() || !metadata->is_object()) {
      throw file_error(path, "has consolidated metadata without members");
    }
    for (const auto& [name, node] : metadata->items()) {
      if (!node.is_object() || !is_inside(name)) {
        throw file_error(path, cat("has consolidated metadata of ", in_quotes(name), ", which is no node"));
      }
      if (node_type(node, path) == "array") add(name, "zarr.json", node, true);
    }
    return true;
  }

  bool take_consolidated_v2() {
    const std::string path = join_path(root_, ".zmetadata");
    if (!exists(path)) return false;
    const Json json = load(path, sources_);
    const auto metadata = json.find("metadata");
    if (metadata == json.end() || !metadata->is_object()) {
      throw file_error(path, "has consolidated metadata without members");
    }
    for (const auto& [key, node] : metadata->items()) {
      constexpr std::string_view kSuffix = "/.zarray";
      if (!key.ends_with(kSuffix)) continue;
      const std::string name = key.substr(0, key.size() - kSuffix.size());
      if (!node.is_object() || !is_inside(name)) {
        throw file_error(path, cat("has consolidated metadata of ", in_quotes(key), ", which is no array"));
      }
      add(name, ".zarray", node, false);
    }
    return true;
  }

  void add(const std::string& name, const char* file, const Json& json, bool v3) {
    const std::string folder = join_path(root_, name);
    found.push_back({name, folder, join_path(folder, file), json, v3});
  }

  std::string root_;
  ByteSourceFactory& sources_;
};

}  // namespace

bool exists(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) throw errno_error(errno, path, "cannot look at");
  return false;
}

bool is_store(const std::string& folder) {
  return exists(join_path(folder, "zarr.json")) || exists(join_path(folder, ".zarray")) ||
         exists(join_path(folder, ".zgroup"));
}

std::vector<Found> find_arrays(const std::string& folder, ByteSourceFactory& sources) {
  Finder finder(folder, sources);
  finder.walk(folder, "", 0);
  return std::move(finder.found);
}

Json load_array(const Found& array, ByteSourceFactory& sources) {
  if (!exists(array.file)) {
    if (!exists(array.folder)) {
      throw file_error(array.folder, "is missing, but the consolidated metadata of its store has it");
    }
    return array.json;
  }
  if (array.json.is_object() && array.v3 && array.name.empty()) return array.json;  // has been read from there
  Json own = load(array.file, sources);
  if (!array.json.is_object()) return own;
  for (const char* key : {"shape", "chunks", "dtype", "order", "compressor", "filters", "dimension_separator",
                          "data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value"}) {
    if (own.value(key, Json()) == array.json.value(key, Json())) continue;
    throw file_error(array.file, cat("has another '", key,
                                     "' than the consolidated metadata of its store, which is out of date: consolidate "
                                     "it again or delete it"));
  }
  return own;
}

}  // namespace loadstone::zarr
