#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadstone/format/catalog.h"
#include "loadstone/format/format.h"

namespace loadstone {

/// One file or store of a set, with the arrays in it.
struct StackPart {
  std::string path;
  FileStamp stamp;
  std::string_view format;
  std::vector<Header> headers;
  FileTable files;  ///< of a store
};

/// Stacks the arrays of each name along axis 0 in the order of the parts. `name` renames the only array; `unnamed` is
/// what an array without a name is called. Error{data} naming the file for an array that it lacks or that differs in
/// dtype or in a dimension but the first (loading D4-D6), and for sizes beyond 2^63-1.
Catalog stack_arrays(std::vector<StackPart> parts, const std::string& name, const std::string& unnamed);

/// The arrays of all parts side by side, none stacked; the parts hold different names.
Catalog union_arrays(std::vector<StackPart> parts);

/// The whole array's bytes fit, with extents of 0 counted as 1: Error{data} otherwise.
void check_total(const ArrayEntry& array);

}  // namespace loadstone
