#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadstone/format/zarr_metadata.h"

namespace loadstone::zarr {

/// A chunk that is there.
struct ChunkFile {
  std::int64_t number = 0;  ///< row-major in the grid
  FileStamp stamp;
};

/// The chunks of a grid of `counts` that are there, ascending. Asked of the folders' listings, so that absent chunks
/// cost nothing; names that are no chunk of the grid are passed over. Error{system} or Error{data} naming what cannot
/// be listed or is no file.
std::vector<ChunkFile> list_chunks(const std::string& folder, const Metadata& data, const Dims& counts);

/// The file of the chunk with this index.
std::string chunk_path(const std::string& folder, const Metadata& data, const Dims& index);
/// The index of a chunk by its number.
Dims chunk_index(std::int64_t number, const Dims& counts);

}  // namespace loadstone::zarr
