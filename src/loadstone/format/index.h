#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loadstone/format/discover.h"

namespace loadstone {

/// Which file holds which tensor of a model: `model.safetensors.index.json` with its weight_map.
struct TensorIndex {
  std::string path;
  std::vector<std::pair<std::string, std::string>> files;  ///< tensor, path of its file; in the order of the text
};

/// True for a name that such an index has.
bool is_index_name(std::string_view name);

/// The index that a single path stands for: itself, or the only one in the folder; "" when there is none. Error{data}
/// for a folder with several.
std::string find_index(const std::vector<std::string>& paths);

/// Reads an index. Error{data} naming it for what is no weight map, names a tensor twice or leaves its folder.
TensorIndex read_index(const std::string& path);

/// The arrays of an index, each from the file that it names: not stacked. Files that are missing are an error before
/// any is opened. Error{data} for a file that lacks its tensor.
Catalog discover_index(const TensorIndex& index, const DiscoverOptions& options, const ThreadPool& pool);

}  // namespace loadstone
