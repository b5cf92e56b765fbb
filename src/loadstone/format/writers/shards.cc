#include "loadstone/format/writers/shards.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/sidecar.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/write.h"

namespace loadstone {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxMarker = 1LL << 28;
constexpr int kMinDigits = 4;

std::vector<std::string> files_of_marker(const std::string& marker) {
  const std::string text = read_small_file(marker, kMaxMarker);
  std::vector<std::string> names;
  try {
    const nlohmann::json root = nlohmann::json::parse(text);
    names = root.at("files").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw file_error(marker, cat("does not list the files of an earlier write: ", printable(error.what())));
  }
  for (const std::string& name : names) {
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      throw file_error(marker, cat("lists ", in_quotes(name), ", which is no plain file name"), "plain file names",
                       name);
    }
  }
  return names;
}

bool is_folder(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

bool is_part_of_store(const std::string& name) {
  static constexpr std::string_view kNames[] = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "c"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         (!name.empty() && name.find_first_not_of("0123456789.") == std::string::npos);
}

/// Files of an earlier write that lie in `dir`; empty for an empty folder. Refuses everything else.
std::vector<std::string> own_files(const std::string& dir, bool replace) {
  std::vector<std::string> there = list_folder(dir);
  if (there.empty()) return {};
  const bool marked = std::find(there.begin(), there.end(), kMarkerName) != there.end();
  if (!replace || !marked) {
    throw file_usage_error(dir,
                           cat("the directory is not empty: it holds ", in_quotes(there.front()),
                               replace ? cat(", and no ", kMarkerName, " says that it was written here")
                                       : std::string("; --replace removes what an earlier write left")),
                           "an empty directory", cat(there.size(), " entries"));
  }
  std::vector<std::string> own = files_of_marker(join_path(dir, kMarkerName));
  std::sort(own.begin(), own.end());
  std::erase_if(there, [&](const std::string& name) {
    return name == kMarkerName || std::binary_search(own.begin(), own.end(), name);
  });
  if (!there.empty()) {
    throw file_usage_error(
        dir, cat("holds files that no earlier write made: ", join_first(there, 5), "; nothing was removed"),
        "only files of an earlier write", cat(there.size(), " other entries"));
  }
  for (const std::string& name : own) {
    if (is_folder(join_path(dir, name))) check_own_store(join_path(dir, name));
  }
  own.emplace_back(kMarkerName);  // last: while files are left, they stay listed
  return own;
}

std::string sidecar_text(const NewArray& array) {
  nlohmann::ordered_json root;
  const std::string code = numpy_typestr(array.dtype);
  root["dtype"] = code.empty() ? to_string(array.dtype) : code;
  root["row_shape"] = nlohmann::ordered_json::array();
  for (int d = 1; d < array.shape.size(); ++d) root["row_shape"].push_back(array.shape[d]);
  root["offset"] = 0;
  root["order"] = "C";
  return root.dump() + "\n";
}

/// A folder under a temporary name beside `path`; gone unless it is renamed.
class TemporaryStore {
 public:
  explicit TemporaryStore(std::string path) : path_(std::move(path)) {
    static std::atomic<unsigned> serial{0};
    temporary_ = join_path(folder_of(path_), cat(".loadstone-store-", ::getpid(), "-", serial.fetch_add(1), ".tmp"));
    if (::mkdir(temporary_.c_str(), 0777) != 0) throw errno_error(errno, path_, "cannot make the directory");
  }
  TemporaryStore(const TemporaryStore&) = delete;
  TemporaryStore& operator=(const TemporaryStore&) = delete;
  ~TemporaryStore() {
    if (!temporary_.empty()) remove_tree(temporary_);
  }
  const std::string& folder() const { return temporary_; }
  void commit() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw errno_error(errno, path_, "cannot rename into place");
    temporary_.clear();
  }

 private:
  std::string path_, temporary_;
};

std::int64_t bytes_on_disk(const std::string& path) {
  if (!is_folder(path)) return static_cast<std::int64_t>(fs::file_size(path));
  std::int64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) sum += static_cast<std::int64_t>(entry.file_size());
  }
  return sum;
}

/// Stores are many small files, so they are synced together.
void sync_file_system(const std::string& dir) {
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw errno_error(errno, dir, "cannot open");
  const int failed = ::syncfs(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed != 0) throw errno_error(failed, dir, "cannot sync");
}

}  // namespace

Undo::~Undo() {
  if (kept_) return;
  for (const std::string& file : files_) remove_tree(file);
  for (auto it = folders_.rbegin(); it != folders_.rend(); ++it) ::rmdir(it->c_str());
}

void Undo::add_file(std::string path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.push_back(std::move(path));
}

void remove_tree(const std::string& path) noexcept {
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      std::error_code failed;
      fs::remove_all(path, failed);
      if (!failed) return;
    } catch (const std::bad_alloc&) {  // what has failed may have been memory: it is being freed
      continue;
    }
  }
}

void make_folders(const std::string& dir, Undo& undo) {
  int failed = 0;
  for (std::size_t at = 0; at < dir.size();) {
    const std::size_t end = std::min(dir.find('/', at + 1), dir.size());
    const std::string part = dir.substr(0, end);
    at = end;
    if (::mkdir(part.c_str(), 0777) == 0) {
      undo.add_folder(part);
    } else if (errno != EEXIST) {
      failed = errno;  // may be a parent that is there and not ours to write to; stat decides
    }
  }
  struct stat found {};
  if (::stat(dir.c_str(), &found) != 0)
    throw errno_error(failed != 0 ? failed : errno, dir, "cannot make the directory");
  if (!S_ISDIR(found.st_mode)) throw file_usage_error(dir, "is not a directory", "a directory", "a file");
}

void check_room(const std::string& dir, bool replace) {
  own_files(dir, replace);
}

void make_room(const std::string& dir, bool replace) {
  for (const std::string& name : own_files(dir, replace)) {
    const std::string path = join_path(dir, name);
    if (is_folder(path)) {
      std::error_code failed;
      fs::remove_all(path, failed);
      if (failed) throw errno_error(failed.value(), path, "cannot remove");
    } else if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      throw errno_error(errno, path, "cannot remove");
    }
  }
}

void check_own_store(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (!entry.is_symlink() && (entry.is_directory() || (entry.is_regular_file() && is_part_of_store(name)))) continue;
    throw file_usage_error(folder, cat("holds ", in_quotes(entry.path().native()),
                                       ", which is no part of a zarr store; nothing was removed"));
  }
}

std::vector<std::string> shard_names(const Writer& writer, std::int64_t shards) {
  const auto width = static_cast<std::size_t>(
      std::max(kMinDigits, static_cast<int>(std::to_string(std::max<std::int64_t>(shards, 1) - 1).size())));
  std::vector<std::string> out;
  for (std::int64_t shard = 0; shard < shards; ++shard) {
    std::string digits = std::to_string(shard);
    digits.insert(0, width - digits.size(), '0');
    out.push_back(cat("shard_", digits, writer.extension));
  }
  return out;
}

NewFile file_of_shard(const ShardSet& set, std::size_t shard) {
  NewFile out{set.arrays, set.storage, {}};
  for (std::size_t a = 0; a < out.arrays.size(); ++a) {
    if (!out.arrays[a].shape.empty()) out.arrays[a].shape[0] = set.rows[shard][a];
  }
  return out;
}

void check_writable(const ShardSet& set) {
  check_writable(*set.writer, {set.arrays, set.storage, {}});
}

std::int64_t write_shards(const std::string& dir, const ShardSet& set, const ThreadPool& pool, ProgressMeter& meter,
                          Undo& undo) {
  const bool raw = set.writer->name == "raw";
  const auto put = [&](std::string_view name, const std::string& text) {
    const std::string path = join_path(dir, name);
    undo.add_file(path);
    write_file_atomically(path, text.data(), text.size());
  };
  if (set.marker) {
    std::vector<std::string> own = set.names;
    if (raw) own.emplace_back(kSidecarName);
    // First of all: what lies in the directory is always listed, even after a crash in the middle. By hand, as the
    // names need no escapes and a destructor of JSON that runs out of memory ends the process without undoing anything.
    const std::string marker = cat("{\"files\":[\"", join(own, "\",\""), "\"]}\n");
    put(kMarkerName, marker);
  }
  std::vector<std::vector<std::int64_t>> first_rows(set.rows.size());
  std::vector<std::int64_t> done(set.arrays.size(), 0);
  for (std::size_t shard = 0; shard < set.rows.size(); ++shard) {
    first_rows[shard] = done;
    for (std::size_t a = 0; a < done.size(); ++a) done[a] += set.rows[shard][a];
  }
  const auto write_one = [&](std::int64_t number, int worker) {
    const auto shard = static_cast<std::size_t>(number);
    const std::string path = join_path(dir, set.names[shard]);
    NewFile file = file_of_shard(set, shard);
    const BoxSource whole = set.source(worker);
    file.source = [&](std::size_t array, const Box& box, std::span<std::byte> out) {
      if (set.cancel != nullptr && worker == 0) set.cancel->poll();
      throw_if_requested(set.cancel);
      Box moved = box;
      if (moved.ndim() > 0) {
        moved.begin[0] += first_rows[shard][array];
        moved.end[0] += first_rows[shard][array];
      }
      whole(array, moved, out);
      meter.add(static_cast<std::int64_t>(out.size()));
    };
    if (set.writer->write_store != nullptr) {
      TemporaryStore store(path);
      set.writer->write_store(file, store.folder());
      undo.add_file(path);
      store.commit();
    } else {
      FileWriter out(path);
      set.writer->write(file, out);
      undo.add_file(path);
      out.commit();
    }
  };
  pool.parallel_for(static_cast<std::int64_t>(set.rows.size()), write_one, set.cancel);
  if (set.writer->write_store != nullptr) sync_file_system(dir);
  if (raw && set.marker) put(kSidecarName, sidecar_text(set.arrays[0]));
  std::int64_t bytes = 0;
  for (const std::string& name : set.names) bytes += bytes_on_disk(join_path(dir, name));
  return bytes;
}

}  // namespace loadstone
