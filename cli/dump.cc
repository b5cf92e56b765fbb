#include "cli/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/text.h"

namespace loadstone::cli {

namespace {

constexpr std::int64_t kWindowBytes = std::int64_t{4} << 20;
// Written bytes are pushed to the disk this far behind, so that the last sync is short and Ctrl-C is answered at once.
constexpr std::int64_t kSyncBytes = std::int64_t{32} << 20;

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_name(const std::string& target) {
  static std::atomic<int> number{0};
  return cat(directory_of(target), "/.loadstone-", static_cast<std::int64_t>(::getpid()), "-", number.fetch_add(1),
             ".tmp");
}

std::string replaced(std::string text, std::string_view word, std::string_view with) {
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + with.size())) {
    text.replace(at, word.size(), with);
  }
  return text;
}

}  // namespace

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(path_) {
  if (path_.empty()) throw usage_error("an output needs a file name, found ''");
  struct stat found {};
  mode_t mode = 0666;
  if (::stat(path_.c_str(), &found) == 0) {
    existed_ = true;
    straight_ = S_ISCHR(found.st_mode) || S_ISFIFO(found.st_mode);
    if (!straight_ && !S_ISREG(found.st_mode)) fail(S_ISDIR(found.st_mode) ? EISDIR : EINVAL, "cannot write");
    mode = found.st_mode & 0777;
    // A link keeps pointing where it does: its target is replaced.
    if (char* real = ::realpath(path_.c_str(), nullptr)) {
      target_ = real;
      std::free(real);
    }
  }
  if (straight_) {
    // Without a reader a FIFO says ENXIO; waiting in open(2) could not be interrupted.
    while ((fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0) {
      if (errno != ENXIO || !S_ISFIFO(found.st_mode)) fail(errno, "cannot open for writing");
      throw_if_requested(&cancel_token());
      ::usleep(10000);
    }
    ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_NONBLOCK);
    return;
  }
  temporary_ = temporary_name(target_);
  note_ = std::make_unique<TemporaryNote>(temporary_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd_ < 0) {
    const int error = errno;
    temporary_.clear();
    fail(error, "cannot create");
  }
  if (existed_ && ::fchmod(fd_, mode) != 0) fail(errno, "cannot set the mode");
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(int errno_value, std::string_view action) const {
  Error error = os_error(errno_value, cat("'", printable(path_), "'"), action);
  ErrorFacts facts = error.facts();
  facts.file = path_;
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  throw Error(error.kind(), error.message(), std::move(facts));
}

void OutputFile::reserve(std::int64_t bytes) {
  if (straight_ || bytes <= 0) return;
  if (::fallocate(fd_, 0, 0, bytes) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    fail(errno, cat("cannot reserve ", bytes, " bytes"));
  }
}

void OutputFile::resume() {
  if (fd_ >= 0) return;
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) fail(errno, "cannot open for writing");
}

void OutputFile::pause() {
  if (straight_ || fd_ < 0) return;
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) fail(errno, "cannot write");
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    throw_if_requested(&cancel_token());
    const ssize_t n = ::write(fd_, bytes.data(), std::min(bytes.size(), static_cast<std::size_t>(kWindowBytes)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(errno, cat("cannot write at byte ", written_));
    const std::int64_t before = written_ / kSyncBytes;
    written_ += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    if (!straight_ && written_ / kSyncBytes != before) {
      constexpr unsigned kWait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
      if (before > 0) ::sync_file_range(fd_, (before - 1) * kSyncBytes, kSyncBytes, kWait);
      ::sync_file_range(fd_, before * kSyncBytes, kSyncBytes, SYNC_FILE_RANGE_WRITE);
    }
  }
}

void OutputFile::finish() {
  if (straight_) return;
  while (::fsync(fd_) != 0) {
    if (errno != EINTR) fail(errno, "cannot sync");
  }
  pause();
}

void OutputFile::commit() {
  if (straight_) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail(errno, "cannot rename");
  temporary_.clear();
  note_.reset();
  committed_ = true;
}

void OutputFile::revoke() {
  if (committed_ && !existed_) ::unlink(target_.c_str());
}

void write_output(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
  file.commit();
}

void Dumps::check_patterns(const std::string& dump, const std::string& dump_each, std::size_t num_arrays,
                           std::int64_t num_devices) {
  const auto has = [](const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; };
  if (has(dump, "{device}")) {
    throw usage_error(cat("--dump '", printable(dump), "': the whole array has no {device}; use --dump-each"));
  }
  if (!dump_each.empty() && num_devices > 1 && !has(dump_each, "{device}")) {
    throw usage_error(cat("--dump-each '", printable(dump_each), "': ", num_devices,
                          " devices would write one file: put {device} into the name, as in 'out.{device}.bin'"));
  }
  for (const std::string* pattern : {&dump, &dump_each}) {
    if (!pattern->empty() && num_arrays > 1 && !has(*pattern, "{array}")) {
      throw usage_error(cat(pattern == &dump ? "--dump" : "--dump-each", " '", printable(*pattern), "': ", num_arrays,
                            " arrays would write one file: put {array} into the name"));
    }
  }
}

Dumps::Dumps(const std::string& dump, const std::string& dump_each, const Catalog& catalog, const Plan& plan) {
  std::vector<std::pair<std::string, std::int64_t>> outputs;  // path, bytes; beside files_
  const auto of_array = [](const std::string& pattern, const std::string& name) {
    return replaced(pattern, "{array}", replaced(name, "/", "."));
  };
  if (!dump.empty()) {
    for (std::size_t a = 0; a < plan.arrays.size(); ++a) {
      const PlannedArray& array = plan.arrays[a];
      outputs.emplace_back(of_array(dump, array.name), array.dtype.nbytes(num_elems(array.shape)));
      files_.push_back({nullptr, static_cast<std::int32_t>(a), -1});
    }
  }
  if (!dump_each.empty()) {
    for (std::size_t s = 0; s < plan.slots.size(); ++s) {
      const Slot& slot = plan.slots[s];
      const std::string& name = plan.arrays[static_cast<std::size_t>(slot.array)].name;
      outputs.emplace_back(replaced(of_array(dump_each, name), "{device}", std::to_string(slot.shard.device.id)),
                           slot.nbytes);
      files_.push_back({nullptr, -1, static_cast<std::int32_t>(s)});
    }
  }

  std::set<std::string> seen;
  std::set<std::pair<dev_t, ino_t>> present;
  for (const auto& [path, bytes] : outputs) {
    if (!seen.insert(path).second) throw usage_error(cat("two outputs would have one name: '", printable(path), "'"));
    struct stat found {};
    if (::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode)) present.emplace(found.st_dev, found.st_ino);
  }
  for (std::int64_t f = 0; !present.empty() && f < catalog.files.size(); ++f) {
    struct stat found {};
    const std::string input = catalog.files.path(f);
    if (::stat(input.c_str(), &found) == 0 && present.contains({found.st_dev, found.st_ino})) {
      throw usage_error(
          cat("'", printable(input), "': is one of the files of the data set: an output would replace it"),
          {.file = input, .expected = "another file", .found = ""});
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    files_[i].file = std::make_unique<OutputFile>(outputs[i].first);
    files_[i].file->reserve(outputs[i].second);
    files_[i].file->pause();
  }
}

std::vector<std::string> Dumps::paths() const {
  std::vector<std::string> out;
  for (const Target& target : files_) out.push_back(target.file->path());
  return out;
}

void Dumps::write(const Placement& placement, CancelToken* cancel, const ProgressFn& progress) {
  std::int64_t total = 0;
  for (const Target& target : files_) {
    if (target.slot >= 0) {
      total += placement.shards[static_cast<std::size_t>(target.slot)].data.nbytes();
    } else {
      const PlacedArray& array = placement.arrays[static_cast<std::size_t>(target.array)];
      total += array.dtype.nbytes(num_elems(array.shape));
    }
  }
  ProgressMeter meter(progress, "dump", total);
  for (const Target& target : files_) {
    OutputFile& file = *target.file;
    file.resume();
    const auto put = [&](std::span<const std::byte> bytes) {
      while (!bytes.empty()) {
        throw_if_requested(cancel);
        const auto part = bytes.first(std::min(bytes.size(), static_cast<std::size_t>(kWindowBytes)));
        file.write(part);
        meter.add(static_cast<std::int64_t>(part.size()));
        bytes = bytes.subspan(part.size());
      }
    };
    if (target.slot >= 0) {
      put(placement.shards[static_cast<std::size_t>(target.slot)].data.bytes());
    } else {
      for_each_window(placement, target.array, kWindowBytes, put);
    }
    file.finish();
  }
  meter.finish();
  throw_if_requested(cancel);
  try {
    for (const Target& target : files_) target.file->commit();
  } catch (...) {
    for (const Target& target : files_) target.file->revoke();
    throw;
  }
}

namespace {

/// The distinct boxes of an array with one holder each, by begin.
std::map<Box, const View*> holders(const Placement& placement, std::int32_t array) {
  std::map<Box, const View*> out;
  for (const PlacedShard& shard : placement.shards) {
    if (shard.array == array && !shard.shard.box.empty()) out.emplace(shard.shard.box, &shard.data);
  }
  return out;
}

/// Copies the part of `window` that lies in `box` from the shard's view into the window's buffer.
void gather(const Box& window, const Dims& window_strides, std::byte* out, const Box& box, const View& view) {
  const Box part = intersect(window, box);
  if (part.empty()) return;
  const std::int64_t itemsize = view.dtype().itemsize();
  StridedBytes dst{out, window_strides};
  StridedBytes src{view.data(), view.layout().strides()};
  for (int d = 0; d < part.ndim(); ++d) {
    src.strides_bytes[d] *= itemsize;
    dst.strides_bytes[d] *= itemsize;
    src.data += (part.begin[d] - box.begin[d]) * src.strides_bytes[d];
    dst.data += (part.begin[d] - window.begin[d]) * dst.strides_bytes[d];
  }
  strided_copy(dst, src, part.shape(), itemsize);
}

}  // namespace

void for_each_window(const Placement& placement, std::int32_t array, std::int64_t window_bytes,
                     const std::function<void(std::span<const std::byte>)>& fn) {
  const PlacedArray& whole = placement.arrays[static_cast<std::size_t>(array)];
  const Shape& shape = whole.shape;
  const std::int64_t total = num_elems(shape);
  if (total == 0) return;
  const std::map<Box, const View*> held = holders(placement, array);
  std::int64_t covered = 0;
  for (const auto& [box, view] : held) covered += box.num_elems();
  if (held.size() == 1 && covered == total) return fn(held.begin()->second->bytes());
  if (covered != total || !whole.dtype.whole_bytes()) {
    const View assembled = assemble(placement, array);
    return fn(assembled.bytes());
  }

  // A window is a run of indices along one dimension, with all that lies inside: as many as fit.
  const std::int64_t itemsize = whole.dtype.itemsize();
  int dim = shape.size() - 1;
  std::int64_t inner = 1;
  while (dim > 0 && inner * shape[dim] * itemsize <= window_bytes) inner *= shape[dim--];
  const std::int64_t step = std::clamp<std::int64_t>(window_bytes / (inner * itemsize), 1, shape[dim]);
  std::vector<std::byte> buffer(static_cast<std::size_t>(step * inner * itemsize));
  Box window = Box::whole(shape);
  for (int d = 0; d < dim; ++d) window.end[d] = 1;
  for (;;) {
    for (std::int64_t at = 0; at < shape[dim]; at += step) {
      window.begin[dim] = at;
      window.end[dim] = std::min(at + step, shape[dim]);
      const Dims strides = c_strides(window.shape());
      for (const auto& [box, view] : held) gather(window, strides, buffer.data(), box, *view);
      fn(std::span(buffer).first(static_cast<std::size_t>(window.num_elems() * itemsize)));
    }
    int d = dim - 1;
    while (d >= 0 && window.end[d] == shape[d]) {
      window.begin[d] = 0;
      window.end[d--] = 1;
    }
    if (d < 0) return;
    ++window.begin[d];
    ++window.end[d];
  }
}

}  // namespace loadstone::cli
