// The independent way to the bytes: from the Catalog alone, box by box, sharing no code with plan and exec but the
// strided copy. A fault of the planner therefore cannot hide behind itself when a placement is verified.

#include <memory>
#include <utility>
#include <vector>

#include "loadstone/array/strided_copy.h"
#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/base/text.h"
#include "loadstone/format/format.h"
#include "loadstone/io/file_cache.h"
#include "loadstone/load.h"

namespace loadstone {

namespace {

constexpr std::int64_t kMaxSpan = 4 << 20;  // bytes read at once before a box is cut in two

class BoxReader {
 public:
  BoxReader(ArrayEntry array, FileTable files, ByteSourceFactory& sources)
      : array_(std::move(array)), files_(std::move(files)), cache_(sources) {}

  void read(const Box& box, std::span<std::byte> dst) {
    const std::int64_t expected = array_.dtype.nbytes(box.num_elems());
    if (static_cast<std::int64_t>(dst.size()) != expected) {
      throw internal_error(cat("a source read of ", expected, " bytes got a buffer of ", dst.size()));
    }
    array_.tiling.for_each_overlap(box, array_.dtype, [&](const Piece& piece) {
      const Box sub = intersect(piece.box, box);
      if (!array_.dtype.whole_bytes()) {
        read_packed(piece, sub, box, dst);
      } else if (piece.absent) {
        fill(sub, box, dst);
      } else if (piece.encoding >= 0) {
        read_encoded(piece, sub, box, dst);
      } else {
        read_plain(piece, sub, box, dst);
      }
      return true;
    });
  }

 private:
  std::shared_ptr<ByteSource> open(const Piece& piece) {
    return cache_.get(piece.file, files_.path(piece.file), files_.stamp(piece.file));
  }

  /// Address and byte strides of sub.begin inside the C-order block `box` at dst.
  StridedBytes target(const Box& sub, const Box& box, std::span<std::byte> dst) const {
    const std::int64_t itemsize = array_.dtype.itemsize();
    Dims strides = c_strides(box.shape());
    for (std::int64_t& stride : strides) stride *= itemsize;
    return {dst.data() + linear_index(sub.begin, box) * itemsize, strides};
  }

  Dims stored_strides(const Shape& stored, ElementOrder order) const {
    Dims strides = order == ElementOrder::c ? c_strides(stored) : f_strides(stored);
    for (std::int64_t& stride : strides) stride *= array_.dtype.itemsize();
    return strides;
  }

  static std::int64_t dot(const Dims& a, const Dims& b) {
    std::int64_t sum = 0;
    for (int d = 0; d < a.size(); ++d) sum += a[d] * b[d];
    return sum;
  }

  void read_plain(const Piece& piece, const Box& sub, const Box& box, std::span<std::byte> dst) {
    const Dims strides = stored_strides(piece.stored_shape, piece.order);
    const std::int64_t itemsize = array_.dtype.itemsize();
    std::int64_t span = itemsize;  // from the first to the last byte of sub in the file
    for (int d = 0; d < sub.ndim(); ++d) span += (sub.extent(d) - 1) * strides[d];
    if (span > kMaxSpan && sub.num_elems() > 1) {
      int slowest = -1;
      for (int d = 0; d < sub.ndim(); ++d) {
        if (sub.extent(d) > 1 && (slowest < 0 || strides[d] > strides[slowest])) slowest = d;
      }
      Box low = sub;
      Box high = sub;
      low.end[slowest] = high.begin[slowest] = sub.begin[slowest] + sub.extent(slowest) / 2;
      read_plain(piece, low, box, dst);
      read_plain(piece, high, box, dst);
      return;
    }
    std::vector<std::byte> staged(static_cast<std::size_t>(span));
    const Dims begin = relative_to(sub, piece.box.begin).begin;
    open(piece)->read(piece.offset_bytes + dot(begin, strides), staged);
    const std::int64_t swap = piece.byte_order == ByteOrder::big ? array_.dtype.swap_bytes() : 1;
    strided_copy(target(sub, box, dst), {staged.data(), strides}, sub.shape(), itemsize, swap);
  }

  void read_encoded(const Piece& piece, const Box& sub, const Box& box, std::span<std::byte> dst) {
    const Encoding& encoding = array_.encodings[static_cast<std::size_t>(piece.encoding)];
    const Format* format = find_format(encoding.format);
    if (format == nullptr || format->decode == nullptr) {
      throw internal_error(cat("no decoder for format '", encoding.format, "'"));
    }
    std::vector<std::byte> stored(encoding.reads_file ? 0 : static_cast<std::size_t>(piece.stored_bytes));
    const std::shared_ptr<ByteSource> file = open(piece);
    if (!stored.empty()) file->read(piece.offset_bytes, stored);
    std::vector<std::byte> plain(static_cast<std::size_t>(array_.dtype.nbytes(num_elems(piece.stored_shape))));
    try {
      format->decode(encoding, piece, array_.dtype, stored, plain);
    } catch (const Error& error) {
      ErrorFacts facts = error.facts();
      const std::string path = files_.path(piece.file);
      if (facts.file.empty()) facts.file = path;
      throw Error(error.kind(),
                  cat("'", printable(path), "': piece ", piece.number, " of array '", printable(array_.name),
                      "' at offset ", piece.offset_bytes, ": ", error.message()),
                  std::move(facts), error.where());
    }
    const Dims strides = stored_strides(piece.stored_shape, ElementOrder::c);
    std::byte* from = plain.data() + dot(relative_to(sub, piece.box.begin).begin, strides);
    strided_copy(target(sub, box, dst), {from, strides}, sub.shape(), array_.dtype.itemsize());
  }

  void fill(const Box& sub, const Box& box, std::span<std::byte> dst) {
    if (array_.fill.empty())
      throw data_error(cat("'", array_.name, "': ", to_string(sub), " is absent and has no fill value"));
    strided_copy(target(sub, box, dst), {array_.fill.data(), Dims::filled(sub.ndim(), 0)}, sub.shape(),
                 array_.dtype.itemsize());
  }

  /// Elements of less than a byte: whole rows of a plain C-order piece only.
  void read_packed(const Piece& piece, const Box& sub, const Box& box, std::span<std::byte> dst) {
    const std::int64_t bits = array_.dtype.elem_bits();
    const std::int64_t from = linear_index(sub.begin, piece.box) * bits;
    const std::int64_t to = linear_index(sub.begin, box) * bits;
    bool rows = piece.encoding < 0 && !piece.absent && piece.order == ElementOrder::c &&
                piece.stored_shape == piece.box.shape();
    for (int d = 1; d < sub.ndim(); ++d)
      rows = rows && sub.extent(d) == piece.box.extent(d) && sub.extent(d) == box.extent(d);
    if (!rows || from % 8 != 0 || to % 8 != 0) {
      throw usage_error(
          cat("'", array_.name, "': ", to_string(sub), " of ", to_string(array_.dtype), " cuts inside a byte"));
    }
    const auto bytes = static_cast<std::size_t>(array_.dtype.nbytes(sub.num_elems()));
    open(piece)->read(piece.offset_bytes + from / 8, dst.subspan(static_cast<std::size_t>(to / 8), bytes));
  }

  ArrayEntry array_;
  FileTable files_;
  FileCache cache_;
};

}  // namespace

SourceReader source_reader(const Catalog& catalog, std::int64_t array, ByteSourceFactory* sources) {
  auto reader = std::make_shared<BoxReader>(catalog.arrays[static_cast<std::size_t>(array)], catalog.files,
                                            sources != nullptr ? *sources : pread_sources());
  return [reader](const Box& box, std::span<std::byte> dst) { reader->read(box, dst); };
}

}  // namespace loadstone
