#include "loadstone/exec/windows.h"

#include <algorithm>
#include <utility>

#include "loadstone/exec/cut.h"

namespace loadstone {

namespace {
constexpr std::size_t kBatch = 256;                // pieces
constexpr std::int64_t kWindowsPerWorker = 8;      // so that the last ones end at about the same time …
constexpr std::int64_t kSmallestWindow = 1 << 20;  // … but not smaller than this many bytes
}  // namespace

WindowQueue::WindowQueue(const Catalog& catalog, const Plan& plan) : catalog_(catalog), plan_(plan) {
  if (!plan_.reads.empty()) begin_read();
}

void WindowQueue::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
}

const ArrayEntry& WindowQueue::entry() const {
  const PlannedArray& array = plan_.arrays[static_cast<std::size_t>(plan_.reads[read_].array)];
  return catalog_.arrays[static_cast<std::size_t>(array.catalog_index)];
}

void WindowQueue::begin_read() {
  batch_.clear();
  batch_pos_ = 0;
  next_piece_ = 0;
  more_pieces_ = true;
  const PlanOptions& options = plan_.options;
  const std::int64_t bytes = entry().dtype.nbytes(plan_.reads[read_].box.num_elems());
  const std::int64_t even_share = plan_.totals.bytes_read / (kWindowsPerWorker * std::max(options.threads, 1));
  limit_bytes_ = std::min(options.window_bytes, std::max(even_share, kSmallestWindow));
  if (options.over_decompose > 1) limit_bytes_ = std::min(limit_bytes_, bytes / options.over_decompose);
  limit_bytes_ = std::max<std::int64_t>(limit_bytes_, 1);
}

/// The next pieces of the current Read. False when it has no more.
bool WindowQueue::fetch_batch() {
  batch_.clear();
  batch_pos_ = 0;
  if (!more_pieces_) return false;
  more_pieces_ = false;
  const Box& box = plan_.reads[read_].box;
  entry().tiling.for_each_overlap(
      box, entry().dtype,
      [&](const Piece& piece) {
        if (batch_.size() == kBatch) {
          more_pieces_ = true;
          return false;
        }
        next_piece_ = piece.number + 1;
        Box part = intersect(piece.box, box);
        if (!part.empty()) batch_.push_back({piece, std::move(part)});
        return true;
      },
      next_piece_);
  // Chunks of one file need not lie in the order of their numbers, and those of several shards take turns.
  const auto earlier = [](const PieceRead& a, const PieceRead& b) {
    return std::pair(a.piece.file, a.piece.offset_bytes) < std::pair(b.piece.file, b.piece.offset_bytes);
  };
  if (!std::is_sorted(batch_.begin(), batch_.end(), earlier)) std::stable_sort(batch_.begin(), batch_.end(), earlier);
  return !batch_.empty();
}

/// Goes to the next piece and cuts it. False at the end of the plan.
bool WindowQueue::advance_piece() {
  while (batch_pos_ == batch_.size()) {
    if (read_ >= plan_.reads.size()) return false;
    if (fetch_batch()) break;
    if (++read_ >= plan_.reads.size()) return false;
    begin_read();
  }
  const auto& [piece, box] = batch_[batch_pos_];
  Cut cut{box.shape(), false};
  if (piece.encoding < 0 || piece.absent) {
    cut = cut_plain(piece, box, entry().dtype, plan_.options.cost, limit_bytes_);
  }
  step_ = std::move(cut.step);
  exact_ = cut.exact;
  cursor_ = box.begin;
  in_piece_ = true;
  return true;
}

std::optional<Window> WindowQueue::next() {
  Window window;
  DType dtype;
  bool exact = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopped_ || (!in_piece_ && !advance_piece())) {
      stopped_ = true;
      return std::nullopt;
    }
    const auto& [piece, box] = batch_[batch_pos_];
    window.read = static_cast<std::int32_t>(read_);
    window.piece = piece;
    window.box.begin = cursor_;
    window.box.end = cursor_;
    dtype = entry().dtype;
    exact = exact_;
    for (int d = 0; d < box.ndim(); ++d) window.box.end[d] = std::min(cursor_[d] + step_[d], box.end[d]);

    const Dims order = storage_order(box.ndim(), piece.order);
    int k = box.ndim() - 1;
    for (; k >= 0; --k) {
      const int d = static_cast<int>(order[k]);
      cursor_[d] += step_[d];
      if (cursor_[d] < box.end[d]) break;
      cursor_[d] = box.begin[d];
    }
    if (k < 0) {
      in_piece_ = false;
      ++batch_pos_;
    }
  }
  if (window.piece.encoding >= 0 || window.piece.absent) return window;
  if (!exact) {
    window.pattern = read_pattern(window.piece, window.box, dtype, plan_.options.cost);
    exact = window.pattern.over_reads && window.pattern.bytes_read() > plan_.options.window_bytes;
  }
  if (exact) window.pattern = exact_pattern(window.piece, window.box, dtype);
  return window;
}

}  // namespace loadstone
