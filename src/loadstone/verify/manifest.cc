#include "loadstone/verify/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "loadstone/array/memory.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/verify/manifest_json.h"
#include "loadstone/verify/slices.h"

namespace loadstone {

namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

/// Removes a file unless it has been renamed away.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void keep() { path_.clear(); }

 private:
  std::string path_;
};

void write_all(int fd, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw os_error(errno, path, "cannot write");
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

const ManifestArray* Manifest::find(std::string_view name) const {
  const auto it = std::find_if(arrays.begin(), arrays.end(), [&](const ManifestArray& a) { return a.name == name; });
  return it == arrays.end() ? nullptr : &*it;
}

Manifest read_manifest(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) throw os_error(errno, path, "cannot open");
  std::string text;
  std::string buffer(1 << 16, '\0');
  while (true) {
    const ssize_t n = ::read(file.fd(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw os_error(errno, path, "cannot read");
    if (n == 0) break;
    text.append(buffer, 0, static_cast<std::size_t>(n));
    if (text.size() > detail::kMaxManifestBytes) break;  // parse_manifest says so
  }
  return parse_manifest(text, path);
}

void write_manifest(const Manifest& manifest, const std::string& path) {
  const std::string text = to_json(manifest);
  const std::string temporary = cat(path, ".", ::getpid(), ".tmp");
  File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.fd() < 0) throw os_error(errno, path, "cannot create");
  Temporary cleanup(temporary);
  write_all(file.fd(), text, path);
  if (::fsync(file.fd()) != 0) throw os_error(errno, path, "cannot write");
  if (file.close() != 0) throw os_error(errno, path, "cannot write");
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw os_error(errno, path, "cannot rename to");
  cleanup.keep();
}

namespace detail {

std::int64_t rows_per_block(const Shape& shape, DType dtype) {
  if (shape.empty() || num_elems(shape) == 0) return 0;
  const std::int64_t rows = ceil_div(shape[0], kMaxManifestBlocks);
  const std::int64_t row_bits = (num_elems(shape) / shape[0]) % 8 * (dtype.elem_bits() % 8);
  return row_bits % 8 == 0 ? rows : ceil_div(rows, 8) * 8;  // no block ends inside a byte
}

void add_to_blocks(const Pd61& rule, const Box& box, const std::byte* data, const Dims& strides_bytes,
                   std::int64_t rows_per_block, std::span<Pd61Value> blocks) {
  if (box.empty()) return;
  // Rows of packed types need not end at a byte; blocks do, and their bytes are contiguous.
  const DType dtype = rule.dtype();
  const std::int64_t row_bits =
      dtype.whole_bytes() ? 8 * strides_bytes[0] : box.num_elems() / box.extent(0) * dtype.elem_bits();
  for (std::int64_t begin = box.begin[0]; begin < box.end[0];) {
    const std::int64_t block = begin / rows_per_block;
    Box part = box;
    part.begin[0] = begin;
    part.end[0] = std::min(box.end[0], (block + 1) * rows_per_block);
    blocks[static_cast<std::size_t>(block)] +=
        rule.tile(part, data + (begin - box.begin[0]) * row_bits / 8, strides_bytes);
    begin = part.end[0];
  }
}

Dims contiguous_strides(const Box& box, DType dtype) {
  Dims strides = c_strides(box.shape());
  for (std::int64_t& stride : strides) stride = stride * dtype.elem_bits() / 8;
  return strides;
}

}  // namespace detail

ManifestArray digest_array(const std::string& name, DType dtype, const Shape& shape, const SourceReader& read,
                           const ThreadPool& pool, ProgressMeter* progress, CancelToken* cancel) {
  ManifestArray out;
  out.name = name;
  out.dtype = dtype;
  out.shape = shape;
  out.bytes = dtype.nbytes(num_elems(shape));
  out.rows_per_block = detail::rows_per_block(shape, dtype);
  const auto num_blocks =
      static_cast<std::size_t>(out.rows_per_block == 0 ? 0 : ceil_div(shape[0], out.rows_per_block));

  const Pd61 rule(shape, dtype);
  const std::vector<Box> windows =
      detail::contiguous_slices(Box::whole(shape), dtype, detail::window_bytes(out.bytes, pool.size()));
  std::int64_t largest = 0;
  for (const Box& window : windows) largest = std::max(largest, dtype.nbytes(window.num_elems()));

  struct Worker {
    std::shared_ptr<Memory> buffer;
    std::vector<Pd61Value> blocks;
  };
  std::vector<Worker> workers(static_cast<std::size_t>(pool.size()));
  pool.parallel_for(
      static_cast<std::int64_t>(windows.size()),
      [&](std::int64_t i, int w) {
        Worker& worker = workers[static_cast<std::size_t>(w)];
        if (!worker.buffer) {
          worker.buffer = Memory::allocate_host(largest);
          worker.blocks.resize(std::max<std::size_t>(num_blocks, 1));
        }
        const Box& window = windows[static_cast<std::size_t>(i)];
        const std::int64_t bytes = dtype.nbytes(window.num_elems());
        std::byte* data = worker.buffer->base();
        read(window, {data, static_cast<std::size_t>(bytes)});
        const Dims strides = detail::contiguous_strides(window, dtype);
        if (num_blocks == 0) {
          worker.blocks[0] += rule.tile(window, data, strides);
        } else {
          detail::add_to_blocks(rule, window, data, strides, out.rows_per_block, worker.blocks);
        }
        if (progress != nullptr) progress->add(bytes);
      },
      cancel);

  out.blocks.resize(num_blocks);
  for (const Worker& worker : workers) {
    for (std::size_t b = 0; b < worker.blocks.size(); ++b) {
      out.digest += worker.blocks[b];
      if (b < num_blocks) out.blocks[b] += worker.blocks[b];
    }
  }
  return out;
}

}  // namespace loadstone
