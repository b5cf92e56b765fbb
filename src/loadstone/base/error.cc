#include "loadstone/base/error.h"

#include <cstring>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

std::string_view kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage: return "usage";
    case ErrorKind::data: return "data";
    case ErrorKind::system: return "system";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

Error::Error(ErrorKind kind, std::string message, ErrorFacts facts, SourceLocation where)
    : kind_(kind), message_(std::move(message)), facts_(std::move(facts)), where_(where) {}

Error Error::with_prefix(std::string_view prefix) const {
  return Error(kind_, cat(prefix, ": ", message_), facts_, where_);
}

Interrupted::Interrupted(std::string message) : Error(ErrorKind::system, std::move(message)) {}

Error os_error(int errno_value, std::string_view path, std::string_view action, SourceLocation where) {
  char buffer[256];
  const char* text = strerror_r(errno_value, buffer, sizeof buffer);  // the GNU form: returns the text
  ErrorFacts facts;
  facts.file = std::string(path);
  facts.os_error = errno_value;
  return Error(ErrorKind::system, cat("'", printable(path), "': ", action, ": ", text), std::move(facts), where);
}

Error usage_error(std::string message, ErrorFacts facts, SourceLocation where) {
  return Error(ErrorKind::usage, std::move(message), std::move(facts), where);
}

Error data_error(std::string message, ErrorFacts facts, SourceLocation where) {
  return Error(ErrorKind::data, std::move(message), std::move(facts), where);
}

Error internal_error(std::string message, SourceLocation where) {
  return Error(ErrorKind::internal, std::move(message), {}, where);
}

}  // namespace loadstone
