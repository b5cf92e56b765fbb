#pragma once

#include <cstdint>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace loadstone {

#if defined(__cpp_lib_source_location)
using SourceLocation = std::source_location;
#else
/// std::source_location for clang 14, which lacks the builtin that libstdc++ wants.
class SourceLocation {
 public:
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          const char* function = __builtin_FUNCTION(),
                                          std::uint_least32_t line = __builtin_LINE()) {
    SourceLocation out;
    out.file_ = file;
    out.function_ = function;
    out.line_ = line;
    return out;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr const char* function_name() const { return function_; }
  constexpr std::uint_least32_t line() const { return line_; }

 private:
  const char* file_ = "";
  const char* function_ = "";
  std::uint_least32_t line_ = 0;
};
#endif

/// Who can mend it. The kind decides the exit code of the command line and the Python type; see docs/errors.md.
enum class ErrorKind : std::uint8_t {
  usage,    ///< the caller asked for the impossible: exit 2, ValueError
  data,     ///< a file is not what it claims: exit 3, DataError
  system,   ///< the OS, a driver or memory said no: exit 4, ResourceError
  internal  ///< our bug, please report: exit 70, RuntimeError
};

std::string_view kind_name(ErrorKind kind);

/// What a program can act on without parsing the message. Empty or 0 where it does not apply.
struct ErrorFacts {
  std::string file;      ///< path as the user gave it or as it was found
  std::string expected;  ///< what should have been there, with its unit
  std::string found;     ///< what was there
  int os_error = 0;      ///< errno of the failed call
};

/// The one exception of this library (and Interrupted below). Messages read "file: what failed: expected …, found …":
/// lower case, no full stop, values last.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, ErrorFacts facts = {}, SourceLocation where = SourceLocation::current());

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& message() const noexcept { return message_; }
  const ErrorFacts& facts() const noexcept { return facts_; }
  const SourceLocation& where() const noexcept { return where_; }

  /// The same error with "prefix: " before its message. For callers that know the subject better.
  Error with_prefix(std::string_view prefix) const;

 private:
  ErrorKind kind_;
  std::string message_;
  ErrorFacts facts_;
  SourceLocation where_;
};

/// The work was stopped on request (Ctrl-C, CancelToken). Not a failure of anything: exit 130, KeyboardInterrupt.
class Interrupted : public Error {
 public:
  explicit Interrupted(std::string message = "interrupted");
};

/// Error{system} for a failed call on `path`: "path: action: strerror". Also sets facts.os_error.
Error os_error(int errno_value, std::string_view path, std::string_view action,
               SourceLocation where = SourceLocation::current());

/// Error{usage}, Error{data}, Error{internal} in one word at the place of the throw.
Error usage_error(std::string message, ErrorFacts facts = {}, SourceLocation where = SourceLocation::current());
Error data_error(std::string message, ErrorFacts facts = {}, SourceLocation where = SourceLocation::current());
Error internal_error(std::string message, SourceLocation where = SourceLocation::current());

}  // namespace loadstone
