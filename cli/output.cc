#include "cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <system_error>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

namespace {

/// False on the first failed write, with errno set.
bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool is_utf8(std::string_view text) {
  try {
    (void)Json(std::string(text)).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace

std::string json_text(std::string_view text) {
  return is_utf8(text) ? std::string(text) : printable(text);
}

Json json_dims(const Dims& dims) {
  Json out = Json::array();
  for (const std::int64_t value : dims) out.push_back(value);
  return out;
}

Json json_box(const Box& box) {
  Json out = Json::array();
  for (int d = 0; d < box.ndim(); ++d) out.push_back(Json::array({box.begin[d], box.end[d]}));
  return out;
}

Json json_device(const Device& device) {
  return {{"id", device.id}, {"place", place_name(device)}, {"process", device.process}};
}

Json Failure::json() const {
  const ErrorFacts& facts = error.facts();
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(json_text(text)); };
  Json out{{"kind", interrupted ? "interrupted" : kind_name(error.kind())},
           {"message", json_text(error.message())},
           {"file", text_or_null(facts.file)},
           {"expected", text_or_null(facts.expected)},
           {"found", text_or_null(facts.found)}};
  if (facts.os_error != 0) out["errno"] = facts.os_error;
  return out;
}

int Failure::exit_code() const {
  if (interrupted) return kStopped;
  switch (error.kind()) {
    case ErrorKind::usage: return kUsage;
    case ErrorKind::data: return kData;
    case ErrorKind::system: return kSystem;
    case ErrorKind::internal: return kInternal;
  }
  return kInternal;
}

Failure as_failure(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Interrupted& error) {
    return {error, true};
  } catch (const Error& error) {
    return {error};
  } catch (const std::bad_alloc&) {
    return {Error(ErrorKind::system, "out of memory", {.file = "", .expected = "", .found = "", .os_error = ENOMEM})};
  } catch (const std::system_error& error) {
    return {Error(ErrorKind::system, error.what(),
                  {.file = "", .expected = "", .found = "", .os_error = error.code().value()})};
  } catch (const std::exception& error) {
    return {internal_error(error.what())};
  } catch (...) {
    return {internal_error("an exception of unknown type")};
  }
}

void write_stdout(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return;
  if (errno == EPIPE) throw BrokenPipe{};
  throw os_error(errno, "standard output", "cannot write");
}

void say_error(std::string_view message) {
  (void)write_all(STDERR_FILENO, cat("loadstone: error: ", printable(message), "\n"));
}

void say_note(std::string_view message) {
  (void)write_all(STDERR_FILENO, cat("loadstone: note: ", printable(message), "\n"));
}

std::string read_small_file(const std::string& path, std::string_view what) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const std::string shown = cat("'", printable(path), "'");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw os_error(errno, shown, cat(what, ": cannot open"));
  std::string text;
  int failed = 0;
  for (;;) {
    char buffer[1 << 14];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failed = errno;
    if (n <= 0 || text.size() > kMost) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (failed != 0) throw os_error(failed, shown, cat(what, ": cannot read"));
  if (text.size() > kMost)
    throw data_error(cat(shown, ": ", what, ": larger than ", kMost, " bytes"),
                     {.file = path, .expected = cat("at most ", kMost, " bytes"), .found = "more"});
  return text;
}

}  // namespace loadstone::cli
