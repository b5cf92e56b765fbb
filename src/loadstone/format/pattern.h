#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace loadstone {

/// True if text holds one of * ? [ outside a backslash escape.
bool has_magic(std::string_view text);

/// glob(7) for one path component, on bytes: '*', '?' (one UTF-8 character, or one byte that is none), '[…]' with
/// ranges,
/// '!' or '^' and [:classes:], '\' quotes. A leading dot is matched by a dot only.
bool match_component(std::string_view pattern, std::string_view name);

/// The existing paths that a pattern names, in natural order. Components without magic are taken as they are. Error
/// {system} when a folder on the way cannot be listed for another reason than that it is missing.
/// `literal_folders`: folders that exist under the very name of their component are taken as names, not patterns.
std::vector<std::string> expand_pattern(const std::string& pattern, bool literal_folders);

/// Names in a folder, natural order, without "." and "..". Error{system} with errno.
std::vector<std::string> list_folder(const std::string& folder);

}  // namespace loadstone
