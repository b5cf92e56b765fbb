#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace loadstone {

/// Files that came from one argument (or from neighbouring arguments that name files), natural order for folders and
/// patterns, the given order for lists.
struct Segment {
  enum class Kind : std::uint8_t {
    list,     ///< named one by one: each must be a member
    pattern,  ///< matched a pattern that says more than '*': each must be a member
    folder    ///< all there is (a folder, or the pattern '*'): what is no data is left out
  };
  Kind kind = Kind::list;
  std::string origin;  ///< the argument, for messages
  std::vector<std::string> paths;
};

struct Gathered {
  std::vector<Segment> segments;
  std::vector<std::string> left_out;  ///< with the reason
  std::vector<std::string> notes;
};

/// Expands arguments to files: a name that exists is literal, otherwise a pattern (loading D1, D2, D10, D14, D20).
/// Hidden and unfinished files are left out of folders and patterns. Error{system} for what is missing or cannot be
/// listed, Error{usage} for an empty request.
Gathered gather(const std::vector<std::string>& paths, const std::string& files_from);

/// The paths of a list file: one a line, CRLF tolerated, blank lines skipped, relative to the list's folder. Error
/// {data} for a NUL byte or a list without a path.
std::vector<std::string> read_file_list(const std::string& list);

/// Why a name is not looked at in a scan ("hidden", "unfinished"), or "".
std::string_view skip_reason(std::string_view name);

/// "a directory", "a FIFO", …; "" for a regular file.
std::string_view kind_of_file(unsigned mode);

}  // namespace loadstone
