#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace loadstone::hdf5 {

/// The word of filter number `id` in a chain that undo_filters undoes, "" for filters that it does not know. `values`
/// are those that the dataset keeps for it.
std::string filter_word(int id, std::span<const unsigned> values);

/// Undoes the filters that a chunk went through. `chain` has their words in the order in which they were written,
/// separated by blanks. Checksums are checked. Fills `out` exactly or throws Error{data} without a file name. Safe from
/// any thread.
void undo_filters(std::string_view chain, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace loadstone::hdf5
