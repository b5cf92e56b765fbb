#pragma once

#include <cstdint>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "loadstone/load.h"

namespace loadstone::cli {

using Json = nlohmann::ordered_json;

/// What the process ends with; loading E15.
enum Exit : int {
  kGood = 0,
  kVerificationFailed = 1,
  kUsage = 2,
  kData = 3,
  kSystem = 4,
  kInternal = 70,
  kStopped = 130
};

/// text as JSON can hold it: itself when it is UTF-8, else as printable() shows it.
std::string json_text(std::string_view text);
Json json_dims(const Dims& dims);
/// [[begin, end], …]
Json json_box(const Box& box);
/// {"id", "place", "process"}
Json json_device(const Device& device);
/// Why a verb did not end well.
struct Failure {
  Error error;
  bool interrupted = false;

  int exit_code() const;
  /// {"kind", "message", "file", "expected", "found"}, null where one does not apply.
  Json json() const;
};
/// Any exception as one of our four kinds: memory that is not there is system, the unknown internal.
Failure as_failure(const std::exception_ptr& thrown);

/// Writes all of text to stdout. Error{system}; a reader that has gone (EPIPE) is a BrokenPipe.
void write_stdout(std::string_view text);
struct BrokenPipe {};

/// "loadstone: error: …" on stderr, and "loadstone: note: …".
void say_error(std::string_view message);
void say_note(std::string_view message);

/// The whole of a small file that the user wrote by hand. Error{system} when it cannot be read, Error{data} when it is
/// larger than 16 MiB. `what` is for messages.
std::string read_small_file(const std::string& path, std::string_view what);

}  // namespace loadstone::cli
