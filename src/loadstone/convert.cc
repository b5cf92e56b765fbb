#include "loadstone/convert.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/format/discover.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/pattern.h"
#include "loadstone/format/sniff.h"
#include "loadstone/format/writers/shards.h"
#include "loadstone/load.h"
#include "loadstone/verify/pd61.h"

namespace loadstone {

namespace {

constexpr std::int64_t kSlabBytes = 256 << 20;  // of decoded rows kept, all workers together, without a budget
constexpr std::int64_t kReadBytes = 4 << 20;    // what a read of plain elements stages
constexpr std::int64_t kMaxShards = 10'000'000;

std::int64_t row_bytes(const NewArray& array) {
  std::int64_t bytes = array.dtype.itemsize();
  for (int d = 1; d < array.shape.size(); ++d) bytes *= array.shape[d];
  return bytes;
}

/// Elements of one source array for one worker. Rows that come out of chunks are kept until the next ones are asked
/// for, so that each chunk is decoded once where the limit allows it.
class Rows {
 public:
  Rows(const ArrayEntry& entry, SourceReader read, std::int64_t limit, int threads)
      : entry_(entry), read_(std::move(read)), limit_(limit), pool_(threads) {}

  void pull(const Box& box, std::span<std::byte> out) {
    if (box.ndim() == 0 || !entry_.dtype.whole_bytes() || !worth_keeping(box)) return read_(box, out);
    if (slab_.ndim() == 0 || box.begin[0] < slab_.begin[0] || box.end[0] > slab_.end[0]) load(box);
    copy(slab_, bytes_.data(), box, box, out.data());
  }
  void release() {
    slab_ = {};
    bytes_ = {};
  }

 private:
  std::int64_t rows_bytes(std::int64_t rows) const {
    std::int64_t bytes = entry_.dtype.itemsize();
    for (int d = 1; d < entry_.shape.size(); ++d) bytes *= entry_.shape[d];
    return checked_mul(rows, bytes).value_or(INT64_MAX);
  }

  /// Whole rows of plain files are read straight; so is what the limit does not hold.
  bool worth_keeping(const Box& box) const {
    bool whole = true;
    for (int d = 1; d < box.ndim(); ++d) whole = whole && box.extent(d) == entry_.shape[d];
    return !(whole && entry_.encodings.empty()) && rows_bytes(box.extent(0)) <= limit_;
  }

  /// From the first row of `box` to the end of the chunks that hold its last one, as far as the limit allows.
  void load(const Box& box) {
    slab_ = {};
    Box slab = Box::whole(entry_.shape);
    slab.begin[0] = box.begin[0];
    slab.end[0] = box.end[0];
    std::vector<Box> pieces;
    if (entry_.encodings.empty()) {
      pieces = {slab};
    } else {
      Box last = slab;
      last.begin[0] = slab.end[0] - 1;
      std::int64_t end = slab.end[0];
      entry_.tiling.for_each_overlap(last, entry_.dtype, [&](const Piece& piece) {
        end = std::max(end, piece.box.end[0]);
        return true;
      });
      const std::int64_t most = limit_ / std::max<std::int64_t>(1, rows_bytes(1));
      slab.end[0] = std::max(slab.end[0], std::min(end, slab.begin[0] + most));
      entry_.tiling.for_each_overlap(slab, entry_.dtype, [&](const Piece& piece) {
        pieces.push_back(intersect(piece.box, slab));
        return true;
      });
    }
    bytes_.resize(static_cast<std::size_t>(rows_bytes(slab.extent(0))));
    pool_.parallel_for(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
      const Box& piece = pieces[static_cast<std::size_t>(i)];
      std::vector<std::byte> part(static_cast<std::size_t>(entry_.dtype.nbytes(piece.num_elems())));
      read_(piece, part);
      copy(piece, part.data(), piece, slab, bytes_.data());
    });
    slab_ = slab;
  }

  /// The elements of `box` out of the C-order block `from` into the C-order block `to`.
  void copy(const Box& from, std::byte* source, const Box& box, const Box& to, std::byte* target) const {
    const std::int64_t itemsize = entry_.dtype.itemsize();
    const auto at = [&](const Box& block, std::byte* data) {
      Dims strides = c_strides(block.shape());
      for (std::int64_t& stride : strides) stride *= itemsize;
      return StridedBytes{data + linear_index(box.begin, block) * itemsize, strides};
    };
    strided_copy(at(to, target), at(from, source), box.shape(), itemsize);
  }

  const ArrayEntry& entry_;
  SourceReader read_;
  std::int64_t limit_;
  ThreadPool pool_;
  Box slab_;  ///< the rows kept; of no dimensions when there are none
  std::vector<std::byte> bytes_;
};

/// The hidden folder in which all is made. Locked while it is in use, so that what a killed process has left can be
/// told from what another works on.
class Workshop {
 public:
  explicit Workshop(const std::string& destination)
      : stem_(cat(".", std::string(base_name(destination)).substr(0, 200), ".loadstone-")) {
    const std::string parent(folder_of(destination));
    remove_leftovers(parent);
    path_ = join_path(parent, cat(stem_, ::getpid(), ".tmp"));
    if (::mkdir(path_.c_str(), 0777) != 0) throw errno_error(errno, destination, "cannot make a directory beside");
    fd_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ >= 0) ::flock(fd_, LOCK_EX | LOCK_NB);
  }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;
  ~Workshop() {
    remove_tree(path_);
    if (fd_ >= 0) ::close(fd_);
  }
  const std::string& path() const { return path_; }

 private:
  void remove_leftovers(const std::string& parent) const {
    for (const std::string& name : list_folder(parent.empty() ? "." : parent)) {
      if (!name.starts_with(stem_) || !name.ends_with(".tmp")) continue;
      const std::string path = join_path(parent, name);
      const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0) continue;
      if (::flock(fd, LOCK_EX | LOCK_NB) == 0) remove_tree(path);
      ::close(fd);
    }
  }

  std::string stem_, path_;
  int fd_ = -1;
};

/// Puts `made` in the place of `destination`. `replace`: what is there goes into the workshop, to be removed with it.
void put_in_place(const std::string& made, const std::string& destination, bool replace, const Workshop& workshop) {
  struct stat found {};
  const bool there = ::lstat(destination.c_str(), &found) == 0;
  const bool empty_folder = there && S_ISDIR(found.st_mode) && list_folder(destination).empty();
  int failed = 0;
  if (there && !empty_folder && replace) {
    // At no time is there nothing. Where the file system cannot exchange names, for a moment.
    if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, destination.c_str(), RENAME_EXCHANGE) == 0) return;
    const std::string old = cat(workshop.path(), "/old");
    if (::rename(destination.c_str(), old.c_str()) != 0 || ::rename(made.c_str(), destination.c_str()) != 0) {
      failed = errno;
      ::rename(old.c_str(), destination.c_str());
    }
  } else if (empty_folder) {
    if (::rename(made.c_str(), destination.c_str()) != 0) failed = errno;
  } else if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, destination.c_str(), RENAME_NOREPLACE) != 0) {
    failed = errno;
    if (failed == EINVAL || failed == ENOSYS) failed = ::rename(made.c_str(), destination.c_str()) == 0 ? 0 : errno;
  }
  if (failed != 0) throw errno_error(failed, destination, "cannot rename into place");
  const std::string parent(folder_of(destination));
  const int fd = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void check_destination(const std::string& destination, bool is_file, bool replace) {
  struct stat found {};
  if (::lstat(destination.c_str(), &found) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;  // a parent that is no folder is found when it is made
    throw errno_error(errno, destination, "cannot look at");
  }
  if (S_ISDIR(found.st_mode)) {
    if (!is_file) return check_room(destination, replace);
    if (list_folder(destination).empty()) return;
    if (!replace) throw file_usage_error(destination, "exists; --replace replaces it", "no such store", "a store");
    return check_own_store(destination);
  }
  if (!is_file) throw file_usage_error(destination, "is not a directory", "a directory", "a file");
  if (!S_ISREG(found.st_mode)) throw file_usage_error(destination, "is no regular file, and is not replaced");
  if (!replace) throw file_usage_error(destination, "exists; --replace replaces it", "no such file", "a file");
}

class Conversion {
 public:
  Conversion(const Catalog& catalog, std::string destination, const ConvertOptions& options)
      : catalog_(catalog),
        destination_(std::move(destination)),
        options_(options),
        threads_(ThreadPool(options.threads).size()) {
    while (destination_.size() > 1 && destination_.ends_with('/')) destination_.pop_back();
    const std::string_view base = base_name(destination_);
    if (base.empty() || base == "." || base == ".." || base == "/") {
      throw usage_error(cat("the destination ", in_quotes(destination_), " has no name of its own"));
    }
    if (catalog.arrays.empty()) throw usage_error("there is no array to convert");
    indices_ = options.arrays;
    if (indices_.empty()) {
      indices_.resize(catalog.arrays.size());
      std::iota(indices_.begin(), indices_.end(), std::int64_t{0});
    }
    choose_writer();
    for (const std::int64_t index : indices_) {
      const ArrayEntry& entry = entry_of(index);
      set_.arrays.push_back({entry.name, entry.dtype, entry.shape});
    }
    set_.storage = options.storage;
    check_writable(set_);
    cut();
    set_.names = is_file_ ? std::vector<std::string>{std::string(base)}
                          : shard_names(*set_.writer, static_cast<std::int64_t>(set_.rows.size()));
    set_.marker = !is_file_;
    set_.cancel = options.cancel;
    check_destination(destination_, is_file_, options.replace);
    share_memory();
  }

  ConvertReport run() {
    Undo undo;  // of the folders above
    if (const std::string parent(folder_of(destination_)); !parent.empty()) make_folders(parent, undo);
    const Workshop workshop(destination_);
    const std::string folder = cat(workshop.path(), "/new");
    if (::mkdir(folder.c_str(), 0777) != 0) throw errno_error(errno, destination_, "cannot make a directory beside");

    ConvertReport report;
    report.format = std::string(set_.writer->name);
    report.arrays = set_.arrays;
    report.rows = set_.rows;
    report.peak_bytes = workers_ * need_ + workers_ * slab_;
    std::int64_t total = 0;
    for (const NewArray& array : set_.arrays) total += bytes_of(array);
    const ThreadPool pool(workers_);
    prepare_sources();
    {
      ProgressMeter meter(options_.progress, "convert", total);
      Undo inside;  // goes with the workshop
      report.bytes = write_shards(folder, set_, pool, meter, inside);
      inside.keep();
      meter.finish();
    }
    if (options_.verify) report.digests = verify(folder, total);
    check_destination(destination_, is_file_, options_.replace);
    put_in_place(is_file_ ? join_path(folder, set_.names[0]) : folder, destination_, options_.replace, workshop);
    undo.keep();
    for (const std::string& name : set_.names) {
      report.files.push_back(is_file_ ? destination_ : join_path(destination_, name));
    }
    for (const NewArray& array : set_.arrays) {
      if (!is_lost(array)) continue;
      report.notes.push_back(cat("'", printable(array.name), "': ", set_.writer->name, " has no ",
                                 to_string(array.dtype), ": load it with --dtype ", to_string(array.dtype)));
    }
    return report;
  }

 private:
  const ArrayEntry& entry_of(std::int64_t index) const { return catalog_.arrays[static_cast<std::size_t>(index)]; }

  void choose_writer() {
    const Writer* by_name = writer_of_path(destination_);
    if (!options_.format.empty()) {
      set_.writer = &writer_named(options_.format);
      // zarr and zarr2 share an extension.
      is_file_ = by_name != nullptr && (by_name == set_.writer || by_name->extension == set_.writer->extension);
      return;
    }
    is_file_ = by_name != nullptr;
    set_.writer = is_file_ ? by_name : nullptr;
    if (set_.writer != nullptr) return;
    const std::string& format = entry_of(indices_[0]).format;
    for (const std::int64_t index : indices_) {
      if (entry_of(index).format != format) {
        throw usage_error(cat("the arrays are ", format, " and ", entry_of(index).format,
                              ": name the format to write with --format"));
      }
    }
    if (format == "mixed") throw usage_error("the files are of several formats: name the one to write with --format");
    set_.writer = &writer_named(format);
  }

  /// Rows of each array in each file.
  void cut() {
    const int sizes = (options_.shards ? 1 : 0) + (options_.rows_per_shard ? 1 : 0) + (options_.shard_bytes ? 1 : 0);
    if (sizes > 1) throw usage_error("--shards, --rows-per-shard and --shard-bytes exclude each other");
    for (const auto& [given, option] :
         {std::pair{options_.shards, "--shards"}, std::pair{options_.rows_per_shard, "--rows-per-shard"},
          std::pair{options_.shard_bytes, "--shard-bytes"}}) {
      if (given && *given < 1) throw usage_error(cat(option, ": expected at least 1, found ", *given));
    }
    const bool scalar =
        std::any_of(set_.arrays.begin(), set_.arrays.end(), [](const NewArray& array) { return array.shape.empty(); });
    if (options_.rows_per_shard || options_.shard_bytes) {
      cut_by_rows(scalar);
    } else if (options_.shards) {
      cut_evenly(*options_.shards);
    } else if (is_file_ || scalar) {
      cut_evenly(1);
    } else {
      cut_as_source();
    }
    if (scalar && set_.rows.size() > 1) throw usage_error("a 0-d array has no axis 0 to cut into shards");
    if (is_file_ && set_.rows.size() > 1) {
      throw usage_error(
          cat(in_quotes(destination_), " is one file: it cannot hold ", set_.rows.size(), " shards; name a directory"));
    }
  }

  std::int64_t rows_of(std::size_t a) const { return set_.arrays[a].shape.empty() ? 1 : set_.arrays[a].shape[0]; }

  void cut_evenly(std::int64_t shards) {
    if (shards > kMaxShards) throw usage_error(cat("--shards: expected at most ", kMaxShards, ", found ", shards));
    for (std::int64_t f = 0; f < shards; ++f) {
      std::vector<std::int64_t>& rows = set_.rows.emplace_back();
      for (std::size_t a = 0; a < set_.arrays.size(); ++a) {
        rows.push_back(rows_of(a) / shards + (f < rows_of(a) % shards ? 1 : 0));
      }
    }
  }

  void cut_by_rows(bool scalar) {
    if (scalar) throw usage_error("a 0-d array has no axis 0 to cut into shards");
    std::int64_t bytes = 0;
    for (std::size_t a = 0; a < set_.arrays.size(); ++a) {
      if (rows_of(a) != rows_of(0)) {
        throw usage_error(cat("'", printable(set_.arrays[a].name), "' has ", rows_of(a), " rows and '",
                              printable(set_.arrays[0].name), "' ", rows_of(0),
                              ": shards of equal rows need arrays of equal rows; use --shards"));
      }
      bytes += row_bytes(set_.arrays[a]);
    }
    const std::int64_t step = options_.rows_per_shard
                                  ? *options_.rows_per_shard
                                  : std::max<std::int64_t>(1, *options_.shard_bytes / std::max<std::int64_t>(1, bytes));
    const std::int64_t shards = std::max<std::int64_t>(1, ceil_div(rows_of(0), step));
    if (shards > kMaxShards) throw usage_error(cat("that makes ", shards, " shards: at most ", kMaxShards));
    for (std::int64_t f = 0; f < shards; ++f) {
      set_.rows.emplace_back(set_.arrays.size(), std::min(step, rows_of(0) - f * step));
    }
  }

  void cut_as_source() {
    const std::int64_t parts = entry_of(indices_[0]).tiling.num_parts();
    for (const std::int64_t index : indices_) {
      if (entry_of(index).tiling.num_parts() == parts) continue;
      throw usage_error(cat("'", printable(entry_of(indices_[0]).name), "' has ", parts, " parts and '",
                            printable(entry_of(index).name), "' ", entry_of(index).tiling.num_parts(),
                            ": say how many shards with --shards"));
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      std::vector<std::int64_t>& rows = set_.rows.emplace_back();
      for (const std::int64_t index : indices_) rows.push_back(entry_of(index).tiling.rows_of(part));
    }
  }

  /// Workers, and how many bytes each keeps: as many as the budget allows.
  void share_memory() {
    std::int64_t writing = 0;
    for (std::size_t f = 0; f < set_.rows.size(); ++f) {
      writing = std::max(writing, set_.writer->memory(file_of_shard(set_, f)));
    }
    std::int64_t decoding = 0;
    for (const std::int64_t index : indices_) {
      const ArrayEntry& entry = entry_of(index);
      if (entry.encodings.empty()) continue;
      for (std::int64_t p = 0; p < entry.tiling.num_pieces(); ++p) {
        const Piece piece = entry.tiling.piece(p, entry.dtype);
        // What is stored, what comes out of it, and the part that is asked for.
        decoding = std::max(decoding, piece.stored_bytes + 2 * entry.dtype.nbytes(num_elems(piece.stored_shape)));
      }
    }
    const auto shards = static_cast<std::int64_t>(set_.rows.size());
    const std::int64_t budget = options_.memory_budget.value_or(INT64_MAX);
    for (workers_ = static_cast<int>(std::min<std::int64_t>(threads_, shards)); workers_ >= 1; --workers_) {
      readers_ = std::max(1, threads_ / workers_);
      for (; readers_ >= 1; --readers_) {
        need_ = writing + readers_ * decoding + kReadBytes;
        if (need_ <= budget / workers_) break;
      }
      if (readers_ >= 1) break;
    }
    if (workers_ < 1) {
      throw Error(ErrorKind::system, cat("converting takes ", need_, " bytes of memory, above the budget of ", budget),
                  {.file = "", .expected = cat("at most ", budget, " bytes"), .found = cat(need_, " bytes")});
    }
    slab_ = (options_.memory_budget ? budget / workers_ - need_ : kSlabBytes / workers_);
  }

  void prepare_sources() {
    sums_.resize(static_cast<std::size_t>(workers_));
    rows_.resize(static_cast<std::size_t>(workers_));
    for (std::size_t a = 0; a < indices_.size(); ++a) {
      const ArrayEntry& entry = entry_of(indices_[a]);
      const SourceReader read = source_reader(catalog_, indices_[a], options_.sources);
      const std::int64_t keep = set_.writer->table ? slab_ / std::ssize(indices_) : slab_;
      for (auto& rows : rows_) rows.push_back(std::make_unique<Rows>(entry, read, keep, readers_));
      if (options_.verify) rules_.emplace_back(entry.shape, entry.dtype);
    }
    for (auto& sums : sums_) sums.resize(indices_.size());
    last_.resize(static_cast<std::size_t>(workers_));
    set_.source = [this](int worker) -> BoxSource {
      return [this, worker](std::size_t array, const Box& box, std::span<std::byte> out) {
        const auto w = static_cast<std::size_t>(worker);
        // The arrays of a file come one after another, but for tables, whose columns share what may be kept.
        if (!set_.writer->table && last_[w] != array) rows_[w][last_[w]]->release();
        last_[w] = array;
        rows_[w][array]->pull(box, out);
        if (options_.verify) sums_[w][array] += rules_[array].tile(box, out.data());
      };
    };
  }

  /// True when the file does not say the type.
  bool is_lost(const NewArray& array) const {
    return (set_.writer->name == "npy" || set_.writer->name == "npz") && numpy_typestr(array.dtype).empty();
  }

  std::vector<std::string> verify(const std::string& folder, std::int64_t total) {
    std::vector<std::string> out;
    const ThreadPool pool(threads_);
    ProgressMeter meter(options_.progress, "verify", total);
    for (std::size_t a = 0; a < set_.arrays.size(); ++a) {
      const NewArray& array = set_.arrays[a];
      DiscoverOptions discover;
      if (set_.arrays.size() > 1) discover.hints.arrays = {array.name};
      if (is_lost(array)) discover.hints.dtype = DiskType{array.dtype, ByteOrder::little};
      if (set_.writer->name == "raw") {
        discover.raw = true;
        discover.hints.dtype = DiskType{array.dtype, ByteOrder::little};
        discover.hints.row_shape = Shape(array.shape.span().subspan(1));
      }
      discover.cancel = options_.cancel;
      const std::string where = is_file_ ? join_path(folder, set_.names[0]) : folder;
      const Catalog written = open({where}, discover, threads_);
      const ArrayEntry& entry = written.array(set_.arrays.size() > 1 ? std::string_view(array.name) : "");
      Pd61Value read;
      for (const auto& sums : sums_) read += sums[a];
      std::string found = cat(to_string(entry.shape), " ", to_string(entry.dtype));
      std::string expected = cat(to_string(array.shape), " ", to_string(array.dtype));
      if (found == expected) {
        const auto index = static_cast<std::int64_t>(&entry - written.arrays.data());
        expected = to_string(read);
        found = to_string(digest_array(array.name, array.dtype, array.shape, source_reader(written, index), pool,
                                       &meter, options_.cancel)
                              .digest);
      }
      if (found != expected) {
        throw file_error(destination_,
                         cat("array '", printable(array.name), "' reads back otherwise than it was written: expected ",
                             expected, ", found ", found, "; nothing was put in place"),
                         expected, found);
      }
      out.push_back(found);
    }
    meter.finish();
    return out;
  }

  const Catalog& catalog_;
  std::string destination_;
  const ConvertOptions& options_;
  int threads_;
  std::vector<std::int64_t> indices_;
  ShardSet set_;
  bool is_file_ = false;
  int workers_ = 1, readers_ = 1;
  std::int64_t need_ = 0, slab_ = 0;                      ///< bytes a worker: what it must have, what it may keep
  std::vector<std::vector<std::unique_ptr<Rows>>> rows_;  ///< [worker][array]
  std::vector<std::size_t> last_;                         ///< [worker] array pulled last
  std::vector<Pd61> rules_;
  std::vector<std::vector<Pd61Value>> sums_;  ///< [worker][array], of what was read
};

}  // namespace

ConvertReport convert(const Catalog& catalog, const std::string& destination, const ConvertOptions& options) {
  return Conversion(catalog, destination, options).run();
}

}  // namespace loadstone
