#include "loadstone/format/zarr_chunks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "loadstone/base/cat.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"

namespace loadstone::zarr {

namespace {

/// The number at the front of `text`, as chunk keys write it (no sign, no leading zero), below `end`; it is taken off.
bool take_number(std::string_view& text, std::int64_t end, std::int64_t& out) {
  std::size_t digits = 0;
  out = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    out = out * 10 + (text[digits] - '0');
    if (out >= end) return false;
    ++digits;
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return false;
  text.remove_prefix(digits);
  return true;
}

class Lister {
 public:
  Lister(const Metadata& data, const Dims& counts) : data_(data), counts_(counts) {}

  /// Lists the folder that holds the numbers of dimension `d`: one a level with '/', else all in a name.
  void list(const std::string& folder, int d, std::int64_t before) {
    const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
    if (!open) {
      if (errno == ENOENT || errno == ENOTDIR) return;  // no chunk was written
      throw errno_error(errno, folder, "cannot list");
    }
    const bool nested = data_.separator == "/";
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(open.get());
      if (entry == nullptr) {
        if (errno != 0) throw errno_error(errno, folder, "cannot list");
        return;
      }
      const std::string_view name = entry->d_name;
      std::int64_t number = before;
      if (!(nested ? take_one(name, d, number) : take_all(name, number))) continue;
      if (nested && d + 1 < counts_.size()) {
        list(join_path(folder, std::string(name)), d + 1, number);
      } else {
        add(::dirfd(open.get()), folder, name, number);
      }
    }
  }

  /// A chunk of a known name, when it is there.
  void look(const std::string& path) {
    if (::access(path.c_str(), F_OK) == 0) {
      add(AT_FDCWD, {}, path, 0);
    } else if (errno != ENOENT && errno != ENOTDIR) {
      throw errno_error(errno, path, "cannot look at");
    }
  }

  std::vector<ChunkFile> found;

 private:
  bool take_one(std::string_view name, int d, std::int64_t& number) const {
    std::int64_t index = 0;
    if (!take_number(name, counts_[d], index) || !name.empty()) return false;
    number = number * counts_[d] + index;
    return true;
  }

  bool take_all(std::string_view name, std::int64_t& number) const {
    if (!name.starts_with(data_.prefix)) return false;
    name.remove_prefix(data_.prefix.size());
    for (int d = 0; d < counts_.size(); ++d) {
      if (d > 0 || !data_.prefix.empty()) {
        if (!name.starts_with(data_.separator)) return false;
        name.remove_prefix(data_.separator.size());
      }
      std::int64_t index = 0;
      if (!take_number(name, counts_[d], index)) return false;
      number = number * counts_[d] + index;
    }
    return name.empty();
  }

  void add(int folder_fd, const std::string& folder, std::string_view name, std::int64_t number) {
    const std::string text(name), path = folder.empty() ? text : join_path(folder, text);
    struct stat info {};
    if (::fstatat(folder_fd, text.c_str(), &info, 0) != 0) throw errno_error(errno, path, "cannot look at");
    if (!S_ISREG(info.st_mode)) throw file_error(path, "is not a regular file, but has the name of a chunk");
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::int64_t mtime = static_cast<std::int64_t>(info.st_mtim.tv_sec) * kSecond + info.st_mtim.tv_nsec;
    found.push_back({number, {info.st_size, mtime}});
  }

  const Metadata& data_;
  const Dims& counts_;
};

}  // namespace

std::vector<ChunkFile> list_chunks(const std::string& folder, const Metadata& data, const Dims& counts) {
  Lister lister(data, counts);
  if (counts.empty()) {
    lister.look(chunk_path(folder, data, {}));
    return lister.found;
  }
  const bool below = data.separator == "/" && !data.prefix.empty();
  lister.list(below ? join_path(folder, data.prefix) : folder, 0, 0);
  std::sort(lister.found.begin(), lister.found.end(),
            [](const ChunkFile& a, const ChunkFile& b) { return a.number < b.number; });
  return std::move(lister.found);
}

std::string chunk_path(const std::string& folder, const Metadata& data, const Dims& index) {
  std::string key = data.prefix;
  for (int d = 0; d < index.size(); ++d) {
    if (!key.empty()) key += data.separator;
    key += std::to_string(index[d]);
  }
  if (index.empty() && data.zero_key) key.push_back('0');
  return join_path(folder, key);
}

Dims chunk_index(std::int64_t number, const Dims& counts) {
  Dims out = Dims::filled(counts.size(), 0);
  for (int d = counts.size(); d-- > 0;) {
    out[d] = number % counts[d];
    number /= counts[d];
  }
  return out;
}

}  // namespace loadstone::zarr
