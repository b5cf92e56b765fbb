#include <chrono>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/exec/blocks.h"
#include "loadstone/exec/checks.h"
#include "loadstone/exec/executor.h"

namespace loadstone {

namespace {

/// Elements of one piece's share of a Read in the order in which they are stored, as plain bytes. Packed types: bit i
/// of the stream is bit i % 8 of byte i / 8.
struct Stream {
  std::vector<std::byte> bytes;
  Box box;     ///< the elements that the stream holds
  Dims order;  ///< dimensions, slowest first
  bool swap = false;
};

/// Deliberately shares no copying code with the other executors: it moves one element, and of that one bit or byte, at
/// a time.
class SerialExecutor final : public Executor {
 public:
  Placement run(const Catalog& catalog, const Plan& plan, const ExecOptions& options) override {
    const auto begin = std::chrono::steady_clock::now();
    check_runnable(catalog, plan, options);
    SlotBuffers slots = allocate_slots(plan, options.buffers);
    LoadStats stats;
    for (const Read& read : plan.reads) {
      for_each_piece_read(catalog, plan, read, [&](const PieceRead& part) {
        if (options.cancel != nullptr && options.cancel->poll()) throw Interrupted();
        place(catalog, plan, read, part, options, slots, stats);
        return true;
      });
    }
    stats.bytes_copied += run_copies(plan, slots, options);
    stats.threads = 1;
    stats.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return make_placement(plan, std::move(slots), stats);
  }

 private:
  static void place(const Catalog& catalog, const Plan& plan, const Read& read, const PieceRead& part,
                    const ExecOptions& options, const SlotBuffers& slots, LoadStats& stats) {
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(read.array)];
    const ArrayEntry& entry = catalog.arrays[static_cast<std::size_t>(array.catalog_index)];
    const Stream stream = fetch(catalog, entry, part, options, stats);
    ++stats.windows;
    walk(stream, entry.dtype, [&](const Dims& index, std::int64_t i) {
      for (const Target& target : read.targets) {
        if (!contains(target.box, index) || !contains(part.box, index)) continue;
        const Block& block = slots.blocks[static_cast<std::size_t>(target.slot)];
        put(block.data, linear_index(index, block.box), stream, i, entry.dtype);
      }
    });
    for (const Target& target : read.targets) {
      const Box box = intersect(target.box, part.box);
      if (box.empty() || !options.tap) continue;
      const Block& block = slots.blocks[static_cast<std::size_t>(target.slot)];
      options.tap(0, {target.slot, box, address_of(block, box.begin, entry.dtype), block.strides_bytes});
    }
  }

  static Stream fetch(const Catalog& catalog, const ArrayEntry& entry, const PieceRead& part,
                      const ExecOptions& options, LoadStats& stats) {
    const Piece& piece = part.piece;
    Stream out;
    out.box = part.box;
    out.order = storage_order(part.box.ndim(), piece.order);
    if (piece.absent) {
      ++stats.absent_pieces;
      const std::byte* element = fill_value(entry, piece);
      const std::int64_t count = part.box.num_elems();
      out.bytes.assign(static_cast<std::size_t>(entry.dtype.nbytes(count)), std::byte{0});
      out.order = storage_order(part.box.ndim(), ElementOrder::c);
      for (std::int64_t i = 0; i < count; ++i) put_bits(out.bytes.data(), i, element, 0, entry.dtype);
      return out;
    }
    ByteSourceFactory& sources = options.sources == nullptr ? pread_sources() : *options.sources;
    const std::unique_ptr<ByteSource> file = sources.open(catalog.files.path(piece.file));
    ++stats.opens;
    if (piece.encoding >= 0) {
      const bool reads_file = encoding_of(entry, piece).reads_file;
      std::vector<std::byte> stored(reads_file ? 0 : static_cast<std::size_t>(piece.stored_bytes));
      if (reads_file) {
        ++stats.requests;
        stats.bytes_read += piece.stored_bytes;
      } else {
        read(*file, piece.offset_bytes, stored, stats);
      }
      out.bytes.resize(static_cast<std::size_t>(entry.dtype.nbytes(num_elems(piece.stored_shape))));
      decode_piece(catalog, entry, piece, options, stored, out.bytes);
      ++stats.decoded_pieces;
      out.order = storage_order(part.box.ndim(), ElementOrder::c);
      out.box = {piece.box.begin, piece.box.begin};
      for (int d = 0; d < out.box.ndim(); ++d) out.box.end[d] += piece.stored_shape[d];
      return out;
    }
    const ReadPattern pattern = exact_pattern(piece, part.box, entry.dtype);
    out.bytes.resize(static_cast<std::size_t>(pattern.bytes_read()));
    out.swap = swap_of(piece, entry.dtype) > 1;
    for_each_run(pattern, [&](std::int64_t offset, std::int64_t i) {
      const auto run = static_cast<std::size_t>(pattern.run_bytes);
      read(*file, offset, std::span<std::byte>(out.bytes).subspan(static_cast<std::size_t>(i) * run, run), stats);
      return true;
    });
    return out;
  }

  static void read(ByteSource& file, std::int64_t offset, std::span<std::byte> dst, LoadStats& stats) {
    file.read(offset, dst);
    ++stats.requests;
    stats.bytes_read += static_cast<std::int64_t>(dst.size());
  }

  /// Calls fn(index, i) for the i-th element of the stream.
  template <typename Fn>
  static void walk(const Stream& stream, DType, const Fn& fn) {
    const std::int64_t count = stream.box.num_elems();
    Dims index = stream.box.begin;
    for (std::int64_t i = 0; i < count; ++i) {
      fn(index, i);
      for (int k = index.size() - 1; k >= 0; --k) {
        const int d = static_cast<int>(stream.order[k]);
        if (++index[d] < stream.box.end[d]) break;
        index[d] = stream.box.begin[d];
      }
    }
  }

  static bool contains(const Box& box, const Dims& index) {
    for (int d = 0; d < index.size(); ++d) {
      if (index[d] < box.begin[d] || index[d] >= box.end[d]) return false;
    }
    return true;
  }

  static void put(std::byte* to, std::int64_t at, const Stream& stream, std::int64_t i, DType dtype) {
    if (!stream.swap) {
      put_bits(to, at, stream.bytes.data(), i, dtype);
      return;
    }
    const std::int64_t size = dtype.itemsize();
    const std::int64_t group = dtype.swap_bytes();
    for (std::int64_t b = 0; b < size; ++b) {
      to[at * size + b] = stream.bytes[static_cast<std::size_t>(i * size + b / group * group + group - 1 - b % group)];
    }
  }

  static void put_bits(std::byte* to, std::int64_t at, const std::byte* from, std::int64_t i, DType dtype) {
    const std::int64_t bits = dtype.elem_bits();
    if (bits % 8 == 0) {
      for (std::int64_t b = 0; b < bits / 8; ++b) to[at * bits / 8 + b] = from[i * bits / 8 + b];
      return;
    }
    for (std::int64_t b = 0; b < bits; ++b) {
      const std::int64_t source = i * bits + b;
      const std::int64_t target = at * bits + b;
      const auto bit = from[source / 8] >> static_cast<int>(source % 8) & std::byte{1};
      const auto place = static_cast<int>(target % 8);
      to[target / 8] = (to[target / 8] & ~(std::byte{1} << place)) | bit << place;
    }
  }
};

}  // namespace

std::unique_ptr<Executor> make_serial_executor() {
  return std::make_unique<SerialExecutor>();
}

}  // namespace loadstone
