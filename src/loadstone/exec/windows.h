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
  ReadPattern pattern;  ///< for plain pieces; reads at most window_bytes unless one element is larger
};

/// Hands out the windows of a plan one by one, in file order, to many workers; O(1) memory whatever their number.
/// A Read gives at least PlanOptions::over_decompose windows where its pieces can be cut so far.
class WindowQueue {
 public:
  /// Keeps references to both.
  WindowQueue(const Catalog& catalog, const Plan& plan);
  /// The next window, or nullopt when all are out or stop() was called. Safe from any thread.
  std::optional<Window> next();
  void stop();

 private:
  const ArrayEntry& entry() const;
  bool advance_piece();
  bool fetch_batch();
  void begin_read();

  const Catalog& catalog_;
  const Plan& plan_;
  std::mutex mutex_;
  bool stopped_ = false;
  std::size_t read_ = 0;
  std::int64_t limit_bytes_ = 0;  // of a window of the current Read
  // The pieces of the current Read are fetched in batches; the current piece is cut in steps, of which `cursor_` is the
  // first index of the next one.
  std::vector<PieceRead> batch_;
  std::size_t batch_pos_ = 0;
  std::int64_t next_piece_ = 0;
  bool more_pieces_ = true;
  bool in_piece_ = false;
  bool exact_ = false;
  Dims step_;
  Dims cursor_;
};

}  // namespace loadstone
