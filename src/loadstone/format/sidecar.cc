#include "loadstone/format/sidecar.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

using nlohmann::json;

constexpr std::int64_t kMaxSidecar = 1LL << 20;
constexpr int kMaxDims = 64;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Parses JSON and refuses what nlohmann accepts in silence: one key twice in an object.
json parse_strict(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> open;
  std::string twice;
  const auto watch = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) {
      open.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open.pop_back();
    } else if (event == json::parse_event_t::key && twice.empty()) {
      const std::string key = value.get<std::string>();
      if (!open.back().insert(key).second) twice = key;
    }
    return true;
  };
  json out;
  try {
    out = json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    throw file_error(path, cat("not valid JSON: ", printable(error.what())), "JSON");
  }
  if (!twice.empty()) throw file_error(path, cat("key '", printable(twice), "' occurs twice"));
  return out;
}

std::string short_dump(const json& value) {
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 60) + "…" : text;
}

std::int64_t whole_number(const json& value, std::string_view key, const std::string& path) {
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= 0x7fffffffffffffffULL);
  if (!fits || value.get<std::int64_t>() < 0) {
    throw file_error(path, cat("'", key, "' is ", short_dump(value), ": expected an integer from 0 to 2^63-1"),
                     "an integer from 0 to 2^63-1", short_dump(value));
  }
  return value.get<std::int64_t>();
}

Shape shape_of(const json& value, std::string_view key, const std::string& path) {
  if (!value.is_array() || value.size() > static_cast<std::size_t>(kMaxDims)) {
    throw file_error(path,
                     cat("'", key, "' is ", short_dump(value), ": expected a list of up to ", kMaxDims, " integers"),
                     "a list of integers", short_dump(value));
  }
  Shape shape;
  for (const json& extent : value) shape.push_back(whole_number(extent, key, path));
  return shape;
}

ReadHints hints_of(const json& object, const std::string& path, bool top) {
  if (!object.is_object()) throw file_error(path, cat("expected an object, found ", short_dump(object)), "an object");
  ReadHints out;
  for (const auto& [key, value] : object.items()) {
    if (key == "dtype") {
      if (!value.is_string()) throw file_error(path, cat("'dtype' is ", short_dump(value), ": expected a name"));
      try {
        out.dtype = parse_dtype(value.get<std::string>());
      } catch (const Error& error) {
        throw file_error(path, printable(error.message()), "a dtype", short_dump(value));
      }
    } else if (key == "row_shape") {
      out.row_shape = shape_of(value, key, path);
    } else if (key == "shape") {
      out.shape = shape_of(value, key, path);
    } else if (key == "offset") {
      out.offset_bytes = whole_number(value, key, path);
    } else if (key == "order") {
      const std::string order = value.is_string() ? value.get<std::string>() : "";
      if (order != "C" && order != "F" && order != "c" && order != "f") {
        throw file_error(path, cat("'order' is ", short_dump(value), ": expected \"C\" or \"F\""), "\"C\" or \"F\"",
                         short_dump(value));
      }
      out.order = order == "F" || order == "f" ? ElementOrder::f : ElementOrder::c;
    } else if (!(top && key == "files")) {
      const std::vector<std::string> known{"dtype", "row_shape", "shape", "offset", "order", "files"};
      const std::string near = nearest(key, known);
      throw file_error(path,
                       cat("unknown key '", printable(key), "'", near.empty() ? "" : cat(", did you mean '", near, "'"),
                           "; known: ", join(known, ", ")),
                       join(known, ", "), key);
    }
  }
  return out;
}

}  // namespace

std::string read_small_file(const std::string& path, std::int64_t limit) {
  struct stat before {};
  if (::stat(path.c_str(), &before) != 0) throw errno_error(errno, path, "cannot open");
  if (!S_ISREG(before.st_mode)) throw file_error(path, "not a regular file", "a regular file");
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) throw errno_error(errno, path, "cannot open");
  std::string out;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw errno_error(errno, path, "cannot read");
    if (n == 0) return out;
    out.append(buffer.data(), static_cast<std::size_t>(n));
    if (static_cast<std::int64_t>(out.size()) > limit) {
      throw file_error(path, cat("larger than the limit of ", limit, " bytes"), cat("at most ", limit, " bytes"));
    }
  }
}

Sidecar parse_sidecar(std::string_view text, const std::string& path) {
  const json root = parse_strict(text, path);
  Sidecar out;
  out.path = path;
  out.hints = hints_of(root, path, true);
  if (const auto files = root.find("files"); files != root.end()) {
    if (!files->is_object()) throw file_error(path, cat("'files' is ", short_dump(*files), ": expected an object"));
    for (const auto& [name, value] : files->items()) out.files.emplace(name, hints_of(value, path, false));
  }
  return out;
}

std::optional<Sidecar> read_sidecar(const std::string& folder) {
  const std::string path = join_path(folder, kSidecarName);
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw errno_error(errno, path, "cannot look at it");
  }
  return parse_sidecar(read_small_file(path, kMaxSidecar), path);
}

ReadHints Sidecar::of(std::string_view name) const {
  const auto it = files.find(name);
  return it == files.end() ? hints : merge_hints(hints, it->second);
}

ReadHints merge_hints(const ReadHints& under, const ReadHints& over) {
  ReadHints out = over;
  if (!out.dtype) out.dtype = under.dtype;
  if (!out.shape && !out.row_shape) {
    out.shape = under.shape;
    out.row_shape = under.row_shape;
  }
  if (!out.offset_bytes) out.offset_bytes = under.offset_bytes;
  if (!out.order) out.order = under.order;
  return out;
}

bool enough_for_raw(const ReadHints& hints) {
  return hints.dtype && (hints.row_shape || hints.shape);
}

std::string contradiction(const Header& header, const ReadHints& sidecar) {
  const auto differs = [](std::string_view key, const std::string& said, const std::string& found) {
    return cat(key, " ", said, ", but the file holds ", found);
  };
  if (sidecar.dtype && sidecar.dtype->dtype != header.dtype) {
    return differs("dtype", to_string(sidecar.dtype->dtype), to_string(header.dtype));
  }
  if (sidecar.shape && *sidecar.shape != header.shape) {
    return differs("shape", to_string(*sidecar.shape), to_string(header.shape));
  }
  const Shape rows = header.shape.empty() ? Shape{} : Shape(header.shape.span().subspan(1));
  if (sidecar.row_shape && (header.shape.empty() || *sidecar.row_shape != rows)) {
    return differs("row_shape", to_string(*sidecar.row_shape),
                   header.shape.empty() ? "one element without rows" : to_string(rows));
  }
  if (sidecar.order && *sidecar.order != header.order && header.shape.size() > 1) {
    const auto letter = [](ElementOrder order) { return std::string(order == ElementOrder::f ? "F" : "C"); };
    return differs("order", letter(*sidecar.order), letter(header.order));
  }
  return {};
}

}  // namespace loadstone
