#include "loadstone/format/writers/writer.h"

#include <libdeflate.h>
#include <zstd.h>

#include <algorithm>
#include <memory>
#include <set>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/checked.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/faults.h"
#include "loadstone/format/sniff.h"

namespace loadstone {

extern const Writer npy_writer, raw_writer, npz_writer, safetensors_writer, arrow_writer, parquet_writer, hdf5_writer,
    zarr_writer, zarr2_writer;

namespace {

constexpr std::int64_t kChunkBytes = 1 << 20;

std::string known_writers() {
  std::vector<std::string> names;
  for (const Writer* writer : all_writers()) names.emplace_back(writer->name);
  return join(names, ", ");
}

void check_storage(const Writer& writer, const NewFile& file) {
  const StorageOptions& storage = file.storage;
  const std::string& codec = storage.compress;
  const bool plain = codec.empty() || codec == "none";
  if (!plain && std::find(writer.codecs.begin(), writer.codecs.end(), codec) == writer.codecs.end()) {
    std::vector<std::string> known{"none"};
    known.insert(known.end(), writer.codecs.begin(), writer.codecs.end());
    throw usage_error(
        cat("cannot compress ", writer.name, " with '", printable(codec), "': known are ", join(known, ", ")));
  }
  if (plain && storage.level >= 0) throw usage_error("a level of compression needs a codec");
  if (storage.chunks.empty()) return;
  if (!writer.chunked) throw usage_error(cat(writer.name, " files have no chunks"));
  for (const NewArray& array : file.arrays) {
    const int expected = writer.table ? 1 : array.shape.size();
    if (storage.chunks.size() != expected) {
      throw usage_error(cat("chunks ", to_string(storage.chunks), " do not fit '", printable(array.name), "' of shape ",
                            to_string(array.shape), ": expected ", expected, expected == 1 ? " number" : " numbers"));
    }
    std::int64_t bytes = array.dtype.itemsize();
    for (const std::int64_t extent : storage.chunks) {
      const auto product = checked_mul(bytes, extent);
      if (extent < 1 || !product || *product > (std::int64_t{1} << 31)) {
        throw usage_error(
            cat("chunks ", to_string(storage.chunks), ": expected extents from 1 and at most 2 GiB a chunk"));
      }
      bytes = *product;
    }
  }
}

struct FreeCompressor {
  void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
};

}  // namespace

std::span<const Writer* const> all_writers() {
  static constexpr const Writer* kTable[] = {&npy_writer,         &raw_writer,   &npz_writer,
                                             &safetensors_writer, &arrow_writer, &parquet_writer,
                                             &hdf5_writer,        &zarr_writer,  &zarr2_writer};
  return kTable;
}

const Writer& writer_named(std::string_view name) {
  std::vector<std::string> known;
  for (const Writer* writer : all_writers()) {
    if (writer->name == name) return *writer;
    known.emplace_back(writer->name);
  }
  const std::string near = nearest(name, known);
  throw usage_error(cat("cannot write format '", printable(name), "'",
                        near.empty() ? "" : cat(", did you mean '", near, "'"), "; known: ", known_writers()));
}

const Writer* writer_of_path(std::string_view path) {
  const std::string extension = extension_of(path);
  if (extension == ".h5" || extension == ".hdf5") return &hdf5_writer;
  if (extension == ".arrow" || extension == ".feather") return &arrow_writer;
  for (const Writer* writer : all_writers()) {
    if (writer->extension == extension) return writer;
  }
  return nullptr;
}

void check_writable(const Writer& writer, const NewFile& file) {
  if (file.arrays.size() > 1 && !writer.several) {
    throw usage_error(cat(writer.name, " files hold one array: found ", file.arrays.size(),
                          "; name one, or choose a format that holds several"));
  }
  std::set<std::string_view> names;
  for (const NewArray& array : file.arrays) {
    if (!names.insert(array.name).second) throw usage_error(cat("two arrays are named '", printable(array.name), "'"));
    if (const std::string why = writer.refusal(array); !why.empty()) {
      throw usage_error(cat("'", printable(array.name), "', ", to_string(array.shape), " ", to_string(array.dtype),
                            ", cannot be written as ", writer.name, ": ", why));
    }
    if (writer.table && array.shape[0] != file.arrays[0].shape[0]) {
      throw usage_error(cat("'", printable(array.name), "' has ", array.shape[0], " rows and '",
                            printable(file.arrays[0].name), "' ", file.arrays[0].shape[0], ": the columns of ",
                            writer.name, " have as many"));
    }
  }
  check_storage(writer, file);
  if (writer.table || !writer.chunked) return;
  for (const NewArray& array : file.arrays) {  // names are paths in hdf5 and zarr
    for (std::size_t at = array.name.find('/'); at != std::string::npos; at = array.name.find('/', at + 1)) {
      if (names.contains(std::string_view(array.name).substr(0, at))) {
        throw usage_error(cat("'", printable(array.name), "' would lie inside another array"));
      }
    }
  }
}

void for_each_slice(const Shape& shape, DType dtype, std::int64_t max_bytes,
                    const std::function<void(const Box&)>& fn) {
  const int ndim = shape.size();
  for (const std::int64_t extent : shape) {
    if (extent == 0) return;
  }
  if (ndim == 0) return fn(Box{});
  Dims inner = c_strides(shape);  // elements of one index of each dimension
  int cut = 0;
  if (dtype.whole_bytes()) {
    while (cut < ndim - 1 && inner[cut] > max_bytes / dtype.itemsize()) ++cut;
  }
  std::int64_t step = std::max<std::int64_t>(1, max_bytes * 8 / dtype.elem_bits() / inner[cut]);
  if (!dtype.whole_bytes()) step = (step + 7) / 8 * 8;  // so that no slice ends inside a byte
  Box box = Box::whole(shape);
  for (int d = 0; d < cut; ++d) box.end[d] = 1;
  while (true) {
    for (std::int64_t at = 0; at < shape[cut]; at += step) {
      box.begin[cut] = at;
      box.end[cut] = std::min(shape[cut], at + step);
      fn(box);
    }
    int d = cut - 1;
    for (; d >= 0; --d) {
      ++box.begin[d];
      ++box.end[d];
      if (box.begin[d] < shape[d]) break;
      box.begin[d] = 0;
      box.end[d] = 1;
    }
    if (d < 0) return;
  }
}

void pull_in_order(const NewFile& file, std::size_t array,
                   const std::function<void(std::span<const std::byte>)>& take) {
  const NewArray& it = file.arrays[array];
  std::vector<std::byte> buffer;
  for_each_slice(it.shape, it.dtype, kPullBytes, [&](const Box& box) {
    buffer.resize(static_cast<std::size_t>(it.dtype.nbytes(box.num_elems())));
    file.source(array, box, buffer);
    take(buffer);
  });
}

Shape chunk_shape(const NewArray& array, const StorageOptions& storage) {
  Shape out = array.shape;
  for (std::int64_t& extent : out) extent = std::max<std::int64_t>(extent, 1);
  if (!storage.chunks.empty()) return storage.chunks;
  const Dims inner = c_strides(out);
  for (int d = 0; d < out.size(); ++d) {
    const std::int64_t fit = kChunkBytes / array.dtype.itemsize() / inner[d];
    out[d] = std::min(out[d], std::max<std::int64_t>(fit, 1));
  }
  return out;
}

void for_each_chunk(const Shape& shape, const Shape& chunk,
                    const std::function<void(const Dims& index, const Box& box)>& fn) {
  const int ndim = shape.size();
  Dims index = Dims::filled(ndim, 0);
  for (const std::int64_t extent : shape) {
    if (extent == 0) return;
  }
  while (true) {
    Box box{index, index};
    for (int d = 0; d < ndim; ++d) {
      box.begin[d] = index[d] * chunk[d];
      box.end[d] = std::min(shape[d], box.begin[d] + chunk[d]);
    }
    fn(index, box);
    int d = ndim - 1;
    for (; d >= 0; --d) {
      if (++index[d] * chunk[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

void pull_chunk(const NewFile& file, std::size_t array, const Box& box, const Shape& chunk,
                std::vector<std::byte>& out) {
  const DType dtype = file.arrays[array].dtype;
  const std::int64_t itemsize = dtype.itemsize();
  out.resize(static_cast<std::size_t>(dtype.nbytes(num_elems(chunk))));
  if (box.shape() == chunk) return file.source(array, box, out);
  std::vector<std::byte> part(static_cast<std::size_t>(dtype.nbytes(box.num_elems())));
  file.source(array, box, part);
  std::fill(out.begin(), out.end(), std::byte{0});
  const auto in_bytes = [&](Dims strides) {
    for (std::int64_t& stride : strides) stride *= itemsize;
    return strides;
  };
  strided_copy({out.data(), in_bytes(c_strides(chunk))}, {part.data(), in_bytes(c_strides(box.shape()))}, box.shape(),
               itemsize);
}

std::int64_t bytes_of(const NewArray& array) {
  return array.dtype.nbytes(num_elems(array.shape));
}

std::vector<std::byte> compress(std::string_view codec, int level, std::span<const std::byte> plain) {
  std::vector<std::byte> out;
  std::size_t got = 0;
  if (codec == "zstd") {
    constexpr int kUsual = 3;
    out.resize(ZSTD_compressBound(plain.size()));
    got = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), level < 0 ? kUsual : level);
    if (ZSTD_isError(got) != 0) throw Error(ErrorKind::system, cat("zstd: ", ZSTD_getErrorName(got)));
  } else {
    constexpr int kUsual = 5, kMost = 12;
    const std::unique_ptr<libdeflate_compressor, FreeCompressor> it(
        libdeflate_alloc_compressor(level < 0 ? kUsual : std::min(level, kMost)));
    if (!it) throw Error(ErrorKind::system, "out of memory for a compressor");
    const bool gzip = codec == "gzip";
    out.resize(gzip ? libdeflate_gzip_compress_bound(it.get(), plain.size())
                    : libdeflate_zlib_compress_bound(it.get(), plain.size()));
    got = gzip ? libdeflate_gzip_compress(it.get(), plain.data(), plain.size(), out.data(), out.size())
               : libdeflate_zlib_compress(it.get(), plain.data(), plain.size(), out.data(), out.size());
  }
  out.resize(got);
  return out;
}

}  // namespace loadstone
