#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadstone/base/error.h"
#include "loadstone/format/hdf5_library.h"

namespace loadstone::hdf5 {

// Under the library's mutex, all of them.

/// An error of libhdf5 about a file. Words of versions mean that the file is newer than the library.
Error library_error(const Library& lib, std::string_view path, std::string_view what);

/// Read-only, without a lock. Not good() when it cannot be opened: then last_error() says why.
hid_t open_file(const Library& lib, const std::string& path);
/// External raw files are looked for beside the file.
hid_t open_dataset(const Library& lib, hid_t file, const std::string& name);
/// Names of all datasets of a file, and of objects that this library does not know.
std::vector<std::string> datasets_of(const Library& lib, hid_t file);

}  // namespace loadstone::hdf5
