#pragma once

#include <string>
#include <vector>

#include "loadstone/format/zarr_metadata.h"

namespace loadstone::zarr {

/// Error{system} for anything but "there" and "not there".
bool exists(const std::string& path);
/// True if the folder holds metadata of an array or a group.
bool is_store(const std::string& folder);

/// An array of a store.
struct Found {
  std::string name;    ///< its path in the store; "" when the store is the array
  std::string folder;  ///< of its chunks
  std::string file;    ///< of its metadata
  Json json;           ///< null: to be read
  bool v3 = false;
};

/// The arrays of a store, by name: from the consolidated metadata of its root when there is some, else by walking its
/// folders. Metadata may be left to be read. Error{data} naming the file for metadata that is none.
std::vector<Found> find_arrays(const std::string& folder, ByteSourceFactory& sources);

/// The metadata of an array. Its own file counts; consolidated metadata that says something else about where its
/// elements are is an error, as one of the two is out of date.
Json load_array(const Found& array, ByteSourceFactory& sources);

}  // namespace loadstone::zarr
