#pragma once

#include <string>
#include <string_view>

#include "loadstone/array/dims.h"

namespace loadstone {

/// What the dictionary of a .npy header says, types still as text.
struct NpyHeader {
  std::string descr;       ///< type string, "" when it is not a string
  std::string structured;  ///< "structured" or "sub-array" with the text of descr, when it is not a string
  bool fortran_order = false;
  Shape shape;
};

/// Reads the text of a .npy header: a Python dictionary with exactly the keys descr, fortran_order and shape, in any
/// order, in either quotes. Nothing is evaluated. Error{data} without a file name, quoting the header.
NpyHeader parse_npy_header(std::string_view text);

}  // namespace loadstone
