#include "loadstone/format/index.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/array_names.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/sidecar.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/stack_arrays.h"

namespace loadstone {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxIndex = std::int64_t{256} << 20;

/// Refuses a key that its object has already: parsers keep one of the two without a word.
Json parse_once(const std::string& text) {
  std::vector<std::set<std::string>> seen;
  const auto callback = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) seen.resize(static_cast<std::size_t>(depth) + 1);
    if (event == Json::parse_event_t::object_start) seen.back().clear();
    if (event == Json::parse_event_t::key && !seen.at(static_cast<std::size_t>(depth) - 1).insert(value).second) {
      throw data_error(cat("duplicate key ", in_quotes(value.get<std::string>())));
    }
    return true;
  };
  return Json::parse(text, callback);
}

/// A file's path from its name in the index, which must stay in the index's folder.
std::string file_of(const std::string& index, const std::string& name) {
  const bool leaves = name.empty() || name.front() == '/' || name == ".." || name.starts_with("../") ||
                      name.ends_with("/..") || name.find("/../") != std::string::npos ||
                      name.find('\0') != std::string::npos;
  if (leaves) throw data_error(cat("names the file ", in_quotes(name), ", which is not in its folder"));
  return join_path(folder_of(index), name);
}

bool is_folder(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

/// The files of the tensors wanted, in the order of the index, with those tensors.
std::vector<std::pair<std::string, std::vector<std::string>>> files_wanted(const TensorIndex& index,
                                                                           const DiscoverOptions& options) {
  std::vector<std::string> names;
  for (const auto& [tensor, file] : index.files) names.push_back(tensor);
  require_arrays(index.path, options.hints.arrays, names);
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  std::map<std::string, std::size_t> number;
  for (const auto& [tensor, file] : index.files) {
    if (!is_wanted(options.hints.arrays, tensor)) continue;
    const auto [it, added] = number.emplace(file, out.size());
    if (added) out.emplace_back(file, std::vector<std::string>{});
    out[it->second].second.push_back(tensor);
  }
  return out;
}

}  // namespace

bool is_index_name(std::string_view name) {
  return name.ends_with(".safetensors.index.json");
}

std::string find_index(const std::vector<std::string>& paths) {
  if (paths.size() != 1) return {};
  const std::string& path = paths[0];
  if (is_index_name(path)) return path;
  if (!is_folder(path)) return {};
  std::vector<std::string> found;
  for (const std::string& name : list_folder(path)) {
    if (is_index_name(name)) found.push_back(join_path(path, name));
  }
  if (found.size() > 1) {
    throw file_usage_error(path, cat("holds several indexes: name one of ", join_first(found, 5)));
  }
  return found.empty() ? std::string{} : found[0];
}

TensorIndex read_index(const std::string& path) {
  TensorIndex out{path, {}};
  const std::string text = read_small_file(path, kMaxIndex);
  try {
    const Json json = parse_once(text);
    const auto map = json.find("weight_map");
    if (!json.is_object() || map == json.end() || !map->is_object()) {
      throw data_error("is no index of tensors: expected an object with a weight_map");
    }
    for (const auto& [tensor, file] : map->items()) {
      if (!file.is_string()) throw data_error(cat("weight_map gives no file name for ", in_quotes(tensor)));
      out.files.emplace_back(tensor, file_of(path, file.get<std::string>()));
    }
  } catch (const Json::exception& error) {
    throw file_error(path, cat("is no valid JSON: ", printable(error.what())));
  } catch (const Error& error) {
    if (!error.facts().file.empty()) throw;
    throw as_file_error(path, error);
  }
  if (out.files.empty()) throw file_error(path, "names no tensor", "at least one tensor", "none");
  return out;
}

Catalog discover_index(const TensorIndex& index, const DiscoverOptions& options, const ThreadPool& pool) {
  const auto files = files_wanted(index, options);
  std::vector<Error> faults;
  std::set<std::string_view> looked_at;  // all files, not only those wanted: a model that is not whole is not loaded
  for (const auto& [tensor, path] : index.files) {
    struct stat found {};
    if (options.sources == nullptr && looked_at.insert(path).second && ::stat(path.c_str(), &found) != 0) {
      faults.push_back(errno_error(errno, path, cat("missing, but ", in_quotes(index.path), " names it")));
    }
  }
  if (!faults.empty()) throw_faults(faults);
  std::vector<StackPart> parts(files.size());
  ByteSourceFactory& sources = options.sources != nullptr ? *options.sources : pread_sources();
  const Format& format = *find_format("safetensors");
  pool.parallel_for(
      static_cast<std::int64_t>(files.size()),
      [&](std::int64_t i, int) {
        const auto& [path, tensors] = files[static_cast<std::size_t>(i)];
        const auto source = sources.open(path);
        ReadHints hints = options.hints;
        hints.arrays = tensors;
        parts[static_cast<std::size_t>(i)] = {path, source->stamp(), format.name, format.discover(*source, hints),
                                              FileTable{}};
      },
      options.cancel);
  Catalog out = union_arrays(std::move(parts));
  out.counters.opens = static_cast<std::int64_t>(files.size());
  out.notes.push_back(cat("read through ", in_quotes(index.path)));
  out.completeness_checked = true;
  return out;
}

}  // namespace loadstone
