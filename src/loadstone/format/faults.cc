#include "loadstone/format/faults.h"

#include <algorithm>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone {

std::string in_quotes(std::string_view path) {
  return cat("'", printable(path), "'");
}

Error file_error(std::string_view path, std::string_view what, std::string expected, std::string found) {
  return data_error(cat(in_quotes(path), ": ", what), {std::string(path), std::move(expected), std::move(found), 0});
}

Error file_usage_error(std::string_view path, std::string_view what, std::string expected, std::string found) {
  return usage_error(cat(in_quotes(path), ": ", what), {std::string(path), std::move(expected), std::move(found), 0});
}

Error errno_error(int errno_value, std::string_view path, std::string_view action) {
  const Error plain = os_error(errno_value, printable(path), action);
  ErrorFacts facts = plain.facts();
  facts.file = std::string(path);
  return Error(plain.kind(), plain.message(), std::move(facts));
}

Error as_file_error(std::string_view path, const Error& error) {
  ErrorFacts facts = error.facts();
  facts.file = std::string(path);
  return Error(error.kind(), cat(in_quotes(path), ": ", error.message()), std::move(facts));
}

void throw_faults(const std::vector<Error>& faults) {
  constexpr std::size_t kShown = 5;
  const Error& first = faults.front();
  if (faults.size() == 1) throw Error(first);
  std::string message;
  for (std::size_t i = 0; i < std::min(kShown, faults.size()); ++i) {
    message += cat(i > 0 ? "; " : "", faults[i].message());
  }
  if (faults.size() > kShown) message += cat("; and ", faults.size() - kShown, " more");
  throw Error(first.kind(), cat(message, " (", faults.size(), " files in all)"), first.facts());
}

}  // namespace loadstone
