#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace loadstone::hdf5 {

/// Undoes the filters that a chunk went through. `chain` names them in the order in which they were written, separated
/// by blanks: "shuffle:ITEMSIZE", "deflate", "fletcher32" (checked). Fills `out` exactly or throws Error{data} without
/// a file name. Safe from any thread.
void undo_filters(std::string_view chain, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace loadstone::hdf5
