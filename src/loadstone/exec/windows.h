#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

namespace loadstone {

/// One unit of work: part of one piece's share of one Read, small enough for a staging slot (an encoded piece is never
/// cut). Windows of a plan are disjoint and cover it.
struct Window {
  std::int32_t read = 0;  ///< index into Plan::reads
  Piece piece;
  Box box;              ///< array indices, inside piece.box and the read's box
  ReadPattern pattern;  ///< for plain pieces
};

/// Hands out the windows of a plan one by one, in file order, to many workers; O(1) memory whatever their number.
class WindowQueue {
 public:
  WindowQueue(const Catalog& catalog, const Plan& plan);
  /// The next window, or nullopt when all are out or stop() was called. Safe from any thread.
  std::optional<Window> next();
  void stop();

 private:
  bool advance_piece();
  const Catalog& catalog_;
  const Plan& plan_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::size_t read_ = 0;
  // The pieces of the current Read are fetched in batches; of the current piece, sub-boxes along its slowest
  // dimensions.
  std::vector<PieceRead> batch_;
  std::size_t batch_pos_ = 0;
  std::int64_t next_piece_ = 0;
  std::vector<Box> parts_;
  std::size_t part_pos_ = 0;
};

}  // namespace loadstone
