#include "loadstone/format/gather.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/format.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/sidecar.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

constexpr std::int64_t kMaxList = 1LL << 30;

/// errno of lstat, 0 when the name exists (a broken link does).
int look(const std::string& path, struct stat& found) {
  return ::lstat(path.c_str(), &found) == 0 ? 0 : errno;
}

/// Error{system} when that cannot be told; a broken link or one without permission is no folder.
bool is_folder(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) return S_ISDIR(found.st_mode);
  for (const int told : {ENOENT, ENOTDIR, ELOOP, EACCES, ENAMETOOLONG}) {
    if (errno == told) return false;
  }
  throw errno_error(errno, path, "cannot stat");
}

void add_listed(Gathered& out, const std::string& path) {
  if (out.segments.empty() || out.segments.back().kind != Segment::Kind::list) {
    out.segments.push_back({Segment::Kind::list, path, {}});
  }
  out.segments.back().paths.push_back(path);
}

/// Files that accompany data and need no mention when they are passed over.
bool is_companion(std::string_view name) {
  return name == kSidecarName || name == ".loadstone-write.json";
}

void add_folder(Gathered& out, const std::string& folder) {
  if (find_store_format(folder) != nullptr) {
    add_listed(out, folder);
    return;
  }
  Segment segment{Segment::Kind::folder, folder, {}};
  for (const std::string& name : list_folder(folder)) {
    if (is_companion(name)) continue;
    std::string path = join_path(folder, name);
    if (const std::string_view why = skip_reason(name); !why.empty()) {
      out.left_out.push_back(cat(in_quotes(path), " (", why, ")"));
    } else {
      segment.paths.push_back(std::move(path));
    }
  }
  out.segments.push_back(std::move(segment));
}

void add_pattern(Gathered& out, const std::string& pattern) {
  std::vector<std::string> found = expand_pattern(pattern, false);
  if (found.empty()) {
    found = expand_pattern(pattern, true);
    if (!found.empty()) {
      out.notes.push_back(cat(in_quotes(pattern), " matches nothing as a pattern; its folders were taken as names"));
    }
  }
  const std::string_view last = base_name(pattern);
  Segment segment{last == "*" ? Segment::Kind::folder : Segment::Kind::pattern, pattern, {}};
  for (std::string& path : found) {
    const std::string_view name = base_name(path);
    const std::string_view why = skip_reason(name);
    // A pattern that spells out the dot or the suffix asks for such files.
    const bool asked = (name.starts_with('.') && last.starts_with('.')) ||
                       (!extension_of(name).empty() && extension_of(name) == extension_of(last)) ||
                       (name.ends_with('~') && last.ends_with('~'));
    if (!why.empty() && !asked) {
      out.left_out.push_back(cat(in_quotes(path), " (", why, ")"));
    } else if (!(segment.kind == Segment::Kind::folder && is_companion(name))) {
      segment.paths.push_back(std::move(path));
    }
  }
  if (segment.paths.empty()) {
    const std::string_view folder = folder_of(pattern);
    throw errno_error(ENOENT, pattern,
                      cat("no file matches the pattern ", in_quotes(last), " in ",
                          folder.empty() ? "the current directory" : in_quotes(folder)));
  }
  out.segments.push_back(std::move(segment));
}

void add_argument(Gathered& out, const std::string& path) {
  if (path.empty()) throw usage_error("a path is empty");
  if (path.find('\0') != std::string::npos) throw file_usage_error(path, "a path cannot hold a NUL byte");
  struct stat found {};
  const int failed = look(path, found);
  if (failed == 0) {
    if (is_folder(path)) {
      add_folder(out, path);
    } else {
      add_listed(out, path);
    }
    return;
  }
  const bool missing = failed == ENOENT || failed == ENOTDIR || failed == ENAMETOOLONG;
  if (missing && has_magic(path)) {
    add_pattern(out, path);
  } else {
    add_listed(out, path);  // reported together with the others when it is opened
  }
}

}  // namespace

std::string_view skip_reason(std::string_view name) {
  if (name.starts_with('.')) return "hidden";
  for (const std::string_view suffix : {".tmp", ".partial", ".part", ".incomplete", ".crdownload", ".swp", "~"}) {
    if (name.ends_with(suffix)) return "unfinished or a backup";
  }
  return {};
}

std::string_view kind_of_file(unsigned mode) {
  if (S_ISREG(mode)) return {};
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "of an unknown kind";
}

std::vector<std::string> read_file_list(const std::string& list) {
  const std::string text = read_small_file(list, kMaxList);
  if (const std::size_t nul = text.find('\0'); nul != std::string::npos) {
    throw file_error(list, cat("is not a list of files: it holds a NUL byte at offset ", nul), "text, one path a line",
                     "a NUL byte");
  }
  const std::string_view folder = folder_of(list);
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);  // a byte order mark
  std::vector<std::string> out;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    out.push_back(line.starts_with('/') ? std::string(line) : join_path(folder, line));
  }
  if (out.empty()) throw file_error(list, "lists no file", "at least one path", "none");
  return out;
}

Gathered gather(const std::vector<std::string>& paths, const std::string& files_from) {
  Gathered out;
  if (!files_from.empty()) {
    if (!paths.empty()) throw usage_error("give paths or --files-from, not both");
    out.segments.push_back({Segment::Kind::list, files_from, read_file_list(files_from)});
    return out;
  }
  if (paths.empty()) throw usage_error("no path given: name files, a directory or a pattern");
  for (const std::string& path : paths) add_argument(out, path);
  return out;
}

}  // namespace loadstone
