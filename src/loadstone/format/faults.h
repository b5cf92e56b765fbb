#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "loadstone/base/error.h"

namespace loadstone {

/// "'name'", safe to print.
std::string in_quotes(std::string_view path);

/// Error{data} "'path': what" with the facts filled.
Error file_error(std::string_view path, std::string_view what, std::string expected = {}, std::string found = {});
/// Error{usage} "'path': what".
Error file_usage_error(std::string_view path, std::string_view what, std::string expected = {}, std::string found = {});
/// Error{system} "'path': action: strerror" with a printable name; facts.file keeps the bytes.
Error errno_error(int errno_value, std::string_view path, std::string_view action);

/// error with "'path': " in front and as facts.file; for errors of code that does not know the file.
Error as_file_error(std::string_view path, const Error& error);

/// Throws one error for all: the first as it is, or the first five and the count. Kind and facts are the first's.
[[noreturn]] void throw_faults(const std::vector<Error>& faults);

}  // namespace loadstone
