#include "loadstone/format/write.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/file_writer.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/sidecar.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

namespace {

constexpr std::string_view kMarkerName = ".loadstone-write.json";
constexpr std::int64_t kMaxMarker = 1LL << 28;
constexpr std::int64_t kBuffer = 4LL << 20;  // bytes made up at a time, a worker
constexpr std::int64_t kMaxShards = 10'000'000;
constexpr int kMinDigits = 4;

/// Takes away what a failed call has made.
class Undo {
 public:
  void add_folder(std::string path) { folders_.push_back(std::move(path)); }
  void add_file(std::string path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    files_.push_back(std::move(path));
  }
  void keep() { kept_ = true; }
  Undo() = default;
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    if (kept_) return;
    for (const std::string& file : files_) ::unlink(file.c_str());
    for (auto it = folders_.rbegin(); it != folders_.rend(); ++it) ::rmdir(it->c_str());
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> files_;
  std::vector<std::string> folders_;
  bool kept_ = false;
};

void check(const WriteOptions& options) {
  if (options.format != "npy" && options.format != "raw") {
    throw usage_error(cat("cannot write format '", printable(options.format), "': known are npy and raw"));
  }
  if (!options.dtype.whole_bytes() || options.dtype.lanes != 1) {
    throw usage_error(cat("cannot write elements of ", to_string(options.dtype), ", which fill no whole bytes"));
  }
  if (options.shards < 1 || options.shards > kMaxShards) {
    throw usage_error(cat("the number of shards is ", options.shards, ": expected 1 to ", kMaxShards));
  }
  if (options.shape.empty() && options.shards != 1) throw usage_error("a 0-d array has no axis 0 to cut into shards");
  std::int64_t product = options.dtype.itemsize();
  for (const std::int64_t extent : options.shape) {
    const auto next = checked_mul(product, std::max<std::int64_t>(extent, 1));
    if (extent < 0 || !next) {
      throw usage_error(cat("cannot write shape ", to_string(options.shape), ": ",
                            extent < 0 ? "it has a negative dimension" : "it has more than 2^63-1 bytes"));
    }
    product = *next;
  }
  const bool rows_have_bytes = std::all_of(options.shape.begin() + (options.shape.empty() ? 0 : 1), options.shape.end(),
                                           [](std::int64_t extent) { return extent > 0; });
  if (options.format == "raw" && (options.shape.empty() || !rows_have_bytes)) {
    throw usage_error(cat("raw files cannot tell shape ", to_string(options.shape), ": its rows have no bytes"));
  }
}

/// Makes `dir` and its parents; those made are noted for undoing.
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

/// Refuses a folder with anything in it; with `replace`, first removes what an earlier write lists as its own.
void make_room(const std::string& dir, bool replace) {
  std::vector<std::string> there = list_folder(dir);
  if (there.empty()) return;
  const bool marked = std::find(there.begin(), there.end(), kMarkerName) != there.end();
  if (!replace || !marked) {
    throw file_usage_error(dir,
                           cat("the directory is not empty: it holds ", in_quotes(there.front()),
                               replace ? cat(", and no ", kMarkerName, " says that it was written here")
                                       : std::string("; --replace removes what an earlier write left")),
                           "an empty directory", cat(there.size(), " entries"));
  }
  const std::string marker = join_path(dir, kMarkerName);
  std::vector<std::string> own = files_of_marker(marker);
  std::sort(own.begin(), own.end());
  std::erase_if(there, [&](const std::string& name) {
    return name == kMarkerName || std::binary_search(own.begin(), own.end(), name);
  });
  if (!there.empty()) {
    throw file_usage_error(
        dir, cat("holds files that no earlier write made: ", join_first(there, 5), "; nothing was removed"),
        "only files of an earlier write", cat(there.size(), " other entries"));
  }
  own.emplace_back(kMarkerName);  // last: while files are left, they stay listed
  for (const std::string& name : own) {
    const std::string path = join_path(dir, name);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw errno_error(errno, path, "cannot remove");
  }
}

std::vector<std::int64_t> rows_of_shards(const WriteOptions& options) {
  const std::int64_t total = options.shape.empty() ? 1 : options.shape[0];
  std::vector<std::int64_t> rows;
  if (!options.uneven) {
    for (std::int64_t f = 0; f < options.shards; ++f) {
      rows.push_back(total / options.shards + (f < total % options.shards ? 1 : 0));
    }
    return rows;
  }
  // Cuts at random rows. mt19937_64 is the same everywhere; the standard's distributions are not.
  std::mt19937_64 random(options.seed);
  std::vector<std::int64_t> cuts{total};
  for (std::int64_t f = 1; f < options.shards; ++f) {
    cuts.push_back(static_cast<std::int64_t>(random() % (static_cast<std::uint64_t>(total) + 1)));
  }
  std::sort(cuts.begin(), cuts.end());
  std::int64_t begin = 0;
  for (const std::int64_t cut : cuts) {
    rows.push_back(cut - begin);
    begin = cut;
  }
  return rows;
}

/// A version 1.0 header, padded with blanks so that the payload starts at a multiple of 64.
std::string npy_header(DType dtype, const Shape& shape) {
  std::string descr = numpy_typestr(dtype);
  // As ml_dtypes stores them: the reader has to name the type.
  if (descr.empty()) descr = cat(dtype.itemsize() == 1 ? "|V" : "<V", dtype.itemsize());
  std::string dict = cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': ", to_string(shape), ", }");
  constexpr std::size_t kPrefix = 10;
  dict.append(63 - (kPrefix + dict.size()) % 64, ' ');
  dict.push_back('\n');
  std::string out("\x93NUMPY\x01\x00", 8);
  out.push_back(static_cast<char>(dict.size() & 0xFFU));
  out.push_back(static_cast<char>(dict.size() >> 8U));
  return out + dict;
}

std::string sidecar_text(const WriteOptions& options) {
  nlohmann::ordered_json root;
  const std::string code = numpy_typestr(options.dtype);
  root["dtype"] = code.empty() ? to_string(options.dtype) : code;
  root["row_shape"] = nlohmann::ordered_json::array();
  for (int d = 1; d < options.shape.size(); ++d) root["row_shape"].push_back(options.shape[d]);
  root["offset"] = 0;
  root["order"] = "C";
  return root.dump() + "\n";
}

class ShardWriter {
 public:
  ShardWriter(const std::string& dir, const WriteOptions& options, std::vector<std::int64_t> rows, Undo& undo)
      : dir_(dir), options_(options), rows_(std::move(rows)), undo_(undo) {
    for (int d = 1; d < options.shape.size(); ++d) row_elems_ *= options.shape[d];
    std::int64_t done = 0;
    for (const std::int64_t r : rows_) {
      first_row_.push_back(done);
      done += r;
    }
    width_ = std::max(kMinDigits, static_cast<int>(std::to_string(options.shards - 1).size()));
  }

  std::string name(std::int64_t shard) const {
    std::string digits = std::to_string(shard);
    digits.insert(0, static_cast<std::size_t>(width_) - digits.size(), '0');
    return cat("shard_", digits, options_.format == "npy" ? ".npy" : ".bin");
  }

  std::int64_t bytes(std::int64_t shard) const {
    const std::int64_t payload = rows_[static_cast<std::size_t>(shard)] * row_elems_ * options_.dtype.itemsize();
    return payload + static_cast<std::int64_t>(header(shard).size());
  }

  void write(std::int64_t shard, int worker, ProgressMeter& meter) const {
    const std::string path = join_path(dir_, name(shard));
    FileWriter writer(path);
    const std::string head = header(shard);
    writer.write(head.data(), head.size());
    const std::int64_t itemsize = options_.dtype.itemsize();
    std::int64_t at = first_row_[static_cast<std::size_t>(shard)] * row_elems_;
    const std::int64_t end = at + rows_[static_cast<std::size_t>(shard)] * row_elems_;
    const std::int64_t step = std::max<std::int64_t>(1, kBuffer / itemsize);
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(step, end - at) * itemsize));
    while (at < end) {
      if (options_.cancel != nullptr && worker == 0) options_.cancel->poll();
      throw_if_requested(options_.cancel);
      const std::int64_t n = std::min(step, end - at);
      made_up_elements(options_.dtype, options_.seed, at, n, buffer.data());
      writer.write(buffer.data(), static_cast<std::size_t>(n * itemsize));
      meter.add(n * itemsize);
      at += n;
    }
    undo_.add_file(path);
    writer.commit();
  }

 private:
  std::string header(std::int64_t shard) const {
    if (options_.format != "npy") return {};
    Shape shape = options_.shape;
    if (!shape.empty()) shape[0] = rows_[static_cast<std::size_t>(shard)];
    return npy_header(options_.dtype, shape);
  }

  const std::string& dir_;
  const WriteOptions& options_;
  std::vector<std::int64_t> rows_;
  std::vector<std::int64_t> first_row_;
  Undo& undo_;
  std::int64_t row_elems_ = 1;
  int width_ = kMinDigits;
};

}  // namespace

WriteReport write_dataset(const std::string& dir, const WriteOptions& options, const ThreadPool& pool) {
  check(options);
  if (dir.empty()) throw usage_error("no directory to write to");
  Undo undo;
  make_folders(dir, undo);
  make_room(dir, options.replace);
  WriteReport report;
  report.rows = rows_of_shards(options);
  const ShardWriter shards(dir, options, report.rows, undo);
  std::vector<std::string> own;
  for (std::int64_t f = 0; f < options.shards; ++f) {
    own.push_back(shards.name(f));
    report.files.push_back(join_path(dir, shards.name(f)));
    report.bytes += shards.bytes(f);
  }
  const auto put = [&](std::string_view name, const std::string& text) {
    const std::string path = join_path(dir, name);
    undo.add_file(path);
    write_file_atomically(path, text.data(), text.size());
  };
  if (options.format == "raw") own.emplace_back(kSidecarName);
  // First of all: what lies in the directory is always listed, even after a crash in the middle.
  // Its JSON is gone before: a destructor of it that runs out of memory ends the process without undoing anything.
  const std::string marker = nlohmann::ordered_json{{"files", own}}.dump() + "\n";
  put(kMarkerName, marker);
  ProgressMeter meter(options.progress, "write", report.bytes);
  pool.parallel_for(
      options.shards, [&](std::int64_t f, int worker) { shards.write(f, worker, meter); }, options.cancel);
  if (options.format == "raw") put(kSidecarName, sidecar_text(options));
  meter.finish();
  undo.keep();
  return report;
}

}  // namespace loadstone
