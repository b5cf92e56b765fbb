#include <algorithm>
#include <numeric>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/shard/process_view.h"

namespace loadstone {

namespace {

// Cuts space at every face of a box on dimension 0, and inside each slab on dimension 1, and so on; on the last
// dimension intervals are joined. Going back out, what is equal in neighbouring slabs grows together.
class Sweep {
 public:
  explicit Sweep(const std::vector<Box>& boxes) : boxes_(boxes), ndim_(boxes.front().ndim()) {
    // A grid of disjoint boxes is visited once a dimension; only boxes that overlap or are staggered cost more.
    limit_ = 1'000'000 + 4 * static_cast<std::int64_t>(boxes.size()) * ndim_;
  }

  // Disjoint boxes on dimensions >= dim with the union of `active`, sorted; dimensions < dim are left at 0.
  std::vector<Box> run(int dim, std::vector<std::size_t> active) {
    const auto begin = [&](std::size_t k) { return boxes_[k].begin[dim]; };
    std::sort(active.begin(), active.end(), [&](std::size_t a, std::size_t b) { return begin(a) < begin(b); });
    return dim == ndim_ - 1 ? join_intervals(dim, active) : join_slabs(dim, active);
  }

 private:
  void spend(std::size_t cells) {
    work_ += static_cast<std::int64_t>(cells);
    if (work_ > limit_) {
      throw usage_error(cat(boxes_.size(), " overlapping or staggered boxes split into more than ", limit_,
                            " cells: expected boxes that form a grid, or fewer of them"));
    }
  }

  Box blank() const { return {Dims::filled(ndim_, 0), Dims::filled(ndim_, 0)}; }

  std::vector<Box> join_intervals(int dim, const std::vector<std::size_t>& active) {
    spend(active.size());
    std::vector<Box> out;
    for (const std::size_t k : active) {
      const Box& box = boxes_[k];
      if (!out.empty() && box.begin[dim] <= out.back().end[dim]) {
        out.back().end[dim] = std::max(out.back().end[dim], box.end[dim]);
        continue;
      }
      out.push_back(blank());
      out.back().begin[dim] = box.begin[dim];
      out.back().end[dim] = box.end[dim];
    }
    return out;
  }

  std::vector<Box> join_slabs(int dim, const std::vector<std::size_t>& active) {
    std::vector<std::int64_t> cuts;
    for (const std::size_t k : active) {
      cuts.push_back(boxes_[k].begin[dim]);
      cuts.push_back(boxes_[k].end[dim]);
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());

    std::vector<Box> out;
    std::vector<Box> open;  // sorted by the dimensions > dim; dim itself says where each began
    std::vector<std::size_t> here;
    std::size_t next = 0;
    for (const std::int64_t lo : cuts) {
      std::erase_if(here, [&](std::size_t k) { return boxes_[k].end[dim] <= lo; });
      for (; next < active.size() && boxes_[active[next]].begin[dim] == lo; ++next) here.push_back(active[next]);
      spend(here.size());
      std::vector<Box> slab;
      if (!here.empty()) slab = run(dim + 1, here);
      open = grow(dim, lo, std::move(open), std::move(slab), out);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Boxes of the slab that begins at `lo` and were open before stay open; those that ended go to `out`.
  std::vector<Box> grow(int dim, std::int64_t lo, std::vector<Box> open, std::vector<Box> slab, std::vector<Box>& out) {
    const auto close = [&](Box box) {
      box.end[dim] = lo;
      out.push_back(std::move(box));
    };
    std::size_t k = 0;
    for (Box& box : slab) {
      std::int64_t begin = lo;
      for (; k < open.size(); ++k) {
        Box old = open[k];
        old.begin[dim] = 0;
        if (box < old) break;
        if (old == box) {
          begin = open[k++].begin[dim];
          break;
        }
        close(open[k]);
      }
      box.begin[dim] = begin;
    }
    for (; k < open.size(); ++k) close(open[k]);
    return slab;
  }

  const std::vector<Box>& boxes_;
  int ndim_;
  std::int64_t work_ = 0;
  std::int64_t limit_ = 0;
};

}  // namespace

std::vector<Box> merge_boxes(std::vector<Box> boxes) {
  std::erase_if(boxes, [](const Box& box) { return box.empty(); });
  std::sort(boxes.begin(), boxes.end());
  boxes.erase(std::unique(boxes.begin(), boxes.end()), boxes.end());
  if (boxes.size() <= 1) return boxes;
  for (const Box& box : boxes) {
    if (box.ndim() != boxes.front().ndim()) {
      throw usage_error(
          cat("boxes of different arrays cannot be merged: ", to_string(boxes.front()), " and ", to_string(box)));
    }
  }
  std::vector<std::size_t> all(boxes.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return Sweep(boxes).run(0, std::move(all));
}

}  // namespace loadstone
