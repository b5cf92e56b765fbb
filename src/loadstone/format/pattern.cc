#include "loadstone/format/pattern.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "loadstone/base/error.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/names.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

constexpr std::size_t kMaxSteps = 1U << 20;  // of one match: a pattern of many stars cannot take for ever

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

struct Char {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

/// The UTF-8 character at the front, or the single byte (as a code of its own) where there is none.
Char char_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t first = byte(0);
  const std::size_t n = first < 0xC2 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 1;
  if (n == 1 || n > text.size()) return {first < 0x80 ? first : 0x110000U + first, 1};
  std::uint32_t code = first & (0x7FU >> n);
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {0x110000U + first, 1};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  return {code, n};
}

bool in_class(std::string_view name, std::uint32_t code) {
  if (code >= 0x80) return false;
  const int c = static_cast<int>(code);
  if (name == "alpha") return std::isalpha(c) != 0;
  if (name == "digit") return std::isdigit(c) != 0;
  if (name == "alnum") return std::isalnum(c) != 0;
  if (name == "upper") return std::isupper(c) != 0;
  if (name == "lower") return std::islower(c) != 0;
  if (name == "space") return std::isspace(c) != 0;
  if (name == "punct") return std::ispunct(c) != 0;
  if (name == "xdigit") return std::isxdigit(c) != 0;
  return false;
}

struct Bracket {
  bool matches = false;
  std::size_t bytes = 0;  ///< of the bracket in the pattern; 0 = not closed, so '[' is a plain character
};

Bracket match_bracket(std::string_view pattern, std::uint32_t code) {
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool found = false;
  for (bool first = true; at < pattern.size(); first = false) {
    if (pattern[at] == ']' && !first) return {found != negated, at + 1};
    if (pattern.substr(at).starts_with("[:")) {
      const std::size_t end = pattern.find(":]", at + 2);
      if (end != std::string_view::npos) {
        found = found || in_class(pattern.substr(at + 2, end - at - 2), code);
        at = end + 2;
        continue;
      }
    }
    if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    const Char low = char_at(pattern.substr(at));
    at += low.bytes;
    std::uint32_t high = low.code;
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
      const Char end = char_at(pattern.substr(at));
      at += end.bytes;
      high = end.code;
    }
    found = found || (low.code <= code && code <= high);
  }
  return {};
}

/// Matches one element of the pattern other than '*': bytes used in pattern and name, or nullopt.
std::optional<std::pair<std::size_t, std::size_t>> match_one(std::string_view pattern, std::string_view name) {
  const Char c = char_at(name);
  if (pattern.front() == '?') return std::pair{std::size_t{1}, c.bytes};
  if (pattern.front() == '[') {
    const Bracket bracket = match_bracket(pattern, c.code);
    if (bracket.bytes > 0) {
      if (!bracket.matches) return std::nullopt;
      return std::pair{bracket.bytes, c.bytes};
    }
  }
  const std::size_t quoted_by = pattern.front() == '\\' && pattern.size() > 1 ? 1 : 0;
  if (pattern[quoted_by] != name.front()) return std::nullopt;
  return std::pair{quoted_by + 1, std::size_t{1}};
}

std::string without_escapes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out.push_back(text[i]);
  }
  return out;
}

bool exists(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

bool is_folder(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

/// The names in `folder` that match; a folder that is not there, or is none, holds nothing.
std::vector<std::string> matching(const std::string& folder, std::string_view component) {
  std::vector<std::string> out;
  try {
    for (std::string& name : list_folder(folder.empty() ? "." : folder)) {
      if (match_component(component, name)) out.push_back(std::move(name));
    }
  } catch (const Error& error) {
    const int code = error.facts().os_error;
    if (code != ENOENT && code != ENOTDIR) throw;
  }
  return out;
}

}  // namespace

bool has_magic(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '*' || text[i] == '?' || text[i] == '[') {
      return true;
    }
  }
  return false;
}

bool match_component(std::string_view pattern, std::string_view name) {
  if (name.starts_with('.') && !pattern.starts_with('.') && !pattern.starts_with("\\.")) return false;
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // behind the last '*' met, and the name's end of what it swallowed
  std::size_t swallowed = 0;
  for (std::size_t steps = 0; n < name.size() || p < pattern.size(); ++steps) {
    if (steps > kMaxSteps) return false;
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      swallowed = n;
      continue;
    }
    if (p < pattern.size() && n < name.size()) {
      if (const auto used = match_one(pattern.substr(p), name.substr(n))) {
        p += used->first;
        n += used->second;
        continue;
      }
    }
    if (star == std::string_view::npos || swallowed >= name.size()) return false;
    swallowed += char_at(name.substr(swallowed)).bytes;
    p = star;
    n = swallowed;
  }
  return true;
}

std::vector<std::string> list_folder(const std::string& folder) {
  const std::unique_ptr<DIR, CloseDir> dir(::opendir(folder.c_str()));
  if (!dir) throw errno_error(errno, folder, "cannot list the directory");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) throw errno_error(errno, folder, "cannot list the directory");
  std::sort(names.begin(), names.end(), natural_less);
  return names;
}

std::vector<std::string> expand_pattern(const std::string& pattern, bool literal_folders) {
  std::vector<std::string> found{pattern.starts_with('/') ? "/" : ""};
  std::size_t at = 0;
  while (at < pattern.size()) {
    while (at < pattern.size() && pattern[at] == '/') ++at;
    const std::size_t end = std::min(pattern.find('/', at), pattern.size());
    if (at == end) break;  // a trailing slash
    const std::string component = pattern.substr(at, end - at);
    const bool last = pattern.find_first_not_of('/', end) == std::string::npos;
    std::vector<std::string> next;
    for (const std::string& folder : found) {
      const std::string as_name = join_path(folder, component);
      if (!has_magic(component)) {
        next.push_back(join_path(folder, without_escapes(component)));
      } else if (!last && literal_folders && is_folder(as_name)) {
        next.push_back(as_name);
      } else {
        for (const std::string& name : matching(folder, component)) next.push_back(join_path(folder, name));
      }
    }
    found = std::move(next);
    at = end;
  }
  const bool folders_only = pattern.ends_with('/');
  std::erase_if(found, [&](const std::string& path) { return folders_only ? !is_folder(path) : !exists(path); });
  std::sort(found.begin(), found.end(), natural_less);
  return found;
}

}  // namespace loadstone
