#pragma once

#include <string>

#include "loadstone/format/format.h"
#include "loadstone/format/hdf5_library.h"

namespace loadstone::hdf5 {

/// What one open dataset holds and where its bytes are. Error{data} naming file and dataset for what cannot be loaded.
/// Under the library's mutex. Its encodings begin with "own SWAP " and a chain for undo_filters, or with "lib SWAP ",
/// the name, a zero byte and the path: pieces that libhdf5 reads, of which the offset is the number of the box.
Header describe_dataset(const Library& lib, ByteSource& source, const ReadHints& hints, const std::string& name,
                        hid_t dataset);

}  // namespace loadstone::hdf5
