#pragma once

#include <string>
#include <vector>

namespace loadstone {

/// Where what is opened at run time may lie: the folder of the library that holds this code, then that of the program,
/// links resolved. They are one when the code is linked into the program.
std::vector<std::string> own_folders();

/// The folders that a Python beside us would search for packages: those around our own package, of the environment that
/// holds the program, of $VIRTUAL_ENV, and what their .pth files add. Some may not exist; none is searched by Python's
/// rules beyond that.
std::vector<std::string> site_folders();

/// Existing paths that a glob(7) pattern matches, sorted; none when nothing does.
std::vector<std::string> glob_paths(const std::string& pattern);

}  // namespace loadstone
