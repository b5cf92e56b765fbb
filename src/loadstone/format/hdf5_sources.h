#pragma once

#include <cstdint>
#include <string>

#include "loadstone/format/hdf5_library.h"

namespace loadstone::hdf5 {

// What libhdf5 would fill with zeros or fill values in silence is an Error{data} that names it. `title` is that of the
// dataset in `path`. Under the library's mutex.

/// The external raw files of a dataset of `nbytes` bytes are there and long enough.
void check_external_files(const Library& lib, hid_t plist, const std::string& path, const std::string& title,
                          std::int64_t nbytes);
/// The sources of a virtual dataset are there, large enough and not virtual or external themselves.
void check_virtual_sources(const Library& lib, hid_t plist, const std::string& path, const std::string& title);

}  // namespace loadstone::hdf5
