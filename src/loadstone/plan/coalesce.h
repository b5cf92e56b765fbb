#pragma once

#include <cstdint>

#include "loadstone/array/box.h"
#include "loadstone/array/dtype.h"
#include "loadstone/format/catalog.h"

namespace loadstone {

/// What a request and a byte cost on this storage, for choosing between exact runs and spans. Defaults: a warm local
/// file.
struct CostModel {
  double request_seconds = 1.5e-6;  ///< t_r / Q: fixed cost of one positional read
  double bytes_per_second = 8e9;    ///< b_p: stream rate of one process
  double max_over_read = 16.0;      ///< bytes read <= this many times the bytes needed, whatever is predicted
  std::int64_t exact_reads = 128;   ///< up to so many reads of a piece are never merged over gaps (sharding R9)
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// How a sub-box of a plain piece is read: `num_reads()` positional reads of `run_bytes` each, as an O(1) strided
/// descriptor. Runs whose gaps are cheaper to read than to skip are merged; the bytes in those gaps are over-read.
/// Example: columns 0:16 of a (640, 128) f32 file are 640 runs of 64 B at stride 512; merged, one run of 327,232 B.
struct ReadPattern {
  std::int64_t offset_bytes = 0;  ///< in the file, of the first byte
  std::int64_t run_bytes = 0;     ///< of one read
  Dims counts;                    ///< reads along each outer level, slowest first; () = a single read
  Dims strides_bytes;             ///< file distance between reads on each level
  std::int64_t needed_bytes = 0;  ///< of the sub-box
  bool over_reads = false;        ///< run_bytes covers gaps

  std::int64_t num_reads() const;
  std::int64_t bytes_read() const { return num_reads() * run_bytes; }
  friend bool operator==(const ReadPattern&, const ReadPattern&) = default;
};

/// The stored block's dimensions from slowest to fastest varying: 0..n-1 for C order, n-1..0 for F order.
Dims storage_order(int ndim, ElementOrder order);
/// Byte strides of each array dimension inside the stored block.
Dims storage_strides_bytes(const Piece& piece, DType dtype);

/// The reads for `sub` (array indices, inside piece.box, not empty) of a plain piece. Error{usage} when a packed type
/// would be cut inside a byte.
ReadPattern read_pattern(const Piece& piece, const Box& sub, DType dtype, const CostModel& cost);
/// The same without merging over gaps: the runs as they lie in the file.
ReadPattern exact_pattern(const Piece& piece, const Box& sub, DType dtype);

}  // namespace loadstone
