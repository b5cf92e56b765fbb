#include "loadstone/exec/scatter.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace loadstone {

namespace {

constexpr int kWidest = 16;
constexpr std::int64_t kUnitsPerThread = 4;
constexpr std::int64_t kMostUnits = std::numeric_limits<std::int32_t>::max();

/// A copy as dimensions of bytes, the last one fastest in the destination.
struct Shape1 {
  const std::byte* from;
  std::byte* to;
  std::vector<CopyDim> dims;
  int swap;
};

void merge(std::vector<CopyDim>& dims) {
  std::erase_if(dims, [](const CopyDim& dim) { return dim.extent == 1; });
  for (std::size_t d = 1; d < dims.size();) {
    CopyDim& outer = dims[d - 1];
    const CopyDim& inner = dims[d];
    if (outer.from == inner.from * inner.extent && outer.to == inner.to * inner.extent) {
      outer = {outer.extent * inner.extent, inner.from, inner.to};
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
    } else {
      ++d;
    }
  }
}

class Jobs {
 public:
  void add(const ScatterCopy& copy) {
    Shape1 shape{copy.from, copy.to, merged_dims(copy), static_cast<int>(copy.swap)};
    if (!shape.dims.empty()) split(std::move(shape));
  }

  std::vector<ScatterJob> take() { return std::move(jobs_); }

 private:
  /// Cuts off what a kernel cannot count or has no room to describe.
  void split(Shape1 shape) {
    const int unit = unit_of(shape);
    // Values that are not aligned are turned round byte by byte: one more dimension.
    const bool bytewise = shape.swap > unit;
    std::int64_t units = 1;
    for (const CopyDim& dim : shape.dims) units *= dim.extent;
    units /= bytewise ? 1 : unit;
    const std::size_t most = ScatterBox::kMaxDims - (bytewise ? 1 : 0);
    if (shape.dims.size() <= most && units <= kMostUnits) return emit(shape, bytewise ? 1 : unit, bytewise);
    CopyDim& first = shape.dims.front();
    Shape1 rest = shape;
    const bool peel = shape.dims.size() > 1;
    // Whole dimensions are peeled one index at a time only where there are too many; else halves will do.
    const std::int64_t step = peel && shape.dims.size() > most ? 1 : first.extent / 2 / kWidest * kWidest;
    const std::int64_t taken = step > 0 ? step : std::max<std::int64_t>(first.extent / 2, 1);
    rest.from += taken * first.from;
    rest.to += taken * first.to;
    rest.dims.front().extent -= taken;
    first.extent = taken;
    if (taken == 1) shape.dims.erase(shape.dims.begin());
    if (rest.dims.front().extent > 0) {
      split(std::move(shape));
      split(std::move(rest));
    } else {
      split(std::move(shape));
    }
  }

  static int unit_of(const Shape1& shape) {
    const CopyDim& run = shape.dims.back();
    if (run.from != 1 || run.to != 1) return 1;
    auto bits = static_cast<std::uint64_t>(run.extent) | reinterpret_cast<std::uintptr_t>(shape.from) |
                reinterpret_cast<std::uintptr_t>(shape.to) | kWidest;
    for (std::size_t d = 0; d + 1 < shape.dims.size(); ++d) {
      bits |= static_cast<std::uint64_t>(shape.dims[d].from) | static_cast<std::uint64_t>(shape.dims[d].to);
    }
    return static_cast<int>(bits & (~bits + 1));
  }

  void emit(const Shape1& shape, int unit, bool bytewise) {
    ScatterBox box{};
    box.from = reinterpret_cast<const unsigned char*>(shape.from);
    box.to = reinterpret_cast<unsigned char*>(shape.to);
    box.units = 1;
    const auto push = [&](std::int64_t extent, std::int64_t from, std::int64_t to) {
      box.extents[box.ndim] = static_cast<std::uint32_t>(extent);
      box.from_strides[box.ndim] = from;
      box.to_strides[box.ndim] = to;
      box.units *= static_cast<std::uint32_t>(extent);
      ++box.ndim;
    };
    for (std::size_t d = 0; d + 1 < shape.dims.size(); ++d) {
      push(shape.dims[d].extent, shape.dims[d].from, shape.dims[d].to);
    }
    const CopyDim& run = shape.dims.back();
    int swap = shape.swap;
    if (bytewise) {
      push(run.extent / swap, swap, swap);
      push(swap, 1, -1);
      box.to += swap - 1;
      swap = 0;
    } else if (run.from == 1 && run.to == 1) {
      push(run.extent / unit, unit, unit);
    } else {
      push(run.extent, run.from, run.to);
    }
    for (ScatterJob& job : jobs_) {
      if (job.unit != unit || job.swap != swap || job.count == ScatterJob::kMaxBoxes) continue;
      job.boxes[job.count++] = box;
      return;
    }
    jobs_.push_back({});
    ScatterJob& job = jobs_.back();
    job.unit = unit;
    job.swap = swap;
    job.count = 1;
    job.boxes[0] = box;
  }

  std::vector<ScatterJob> jobs_;
};

}  // namespace

std::vector<CopyDim> merged_dims(const ScatterCopy& copy) {
  std::vector<CopyDim> dims;
  for (int d = 0; d < copy.extents.size(); ++d) {
    if (copy.extents[d] == 0) return {};
    dims.push_back({copy.extents[d], copy.from_strides[d], copy.to_strides[d]});
  }
  // Neighbouring threads write neighbouring bytes.
  std::stable_sort(dims.begin(), dims.end(),
                   [](const CopyDim& a, const CopyDim& b) { return std::abs(a.to) > std::abs(b.to); });
  dims.push_back({copy.itemsize, 1, 1});
  merge(dims);
  if (dims.empty()) dims.push_back({1, 1, 1});
  return dims;
}

std::vector<ScatterJob> scatter_jobs(std::span<const ScatterCopy> copies) {
  Jobs jobs;
  for (const ScatterCopy& copy : copies) jobs.add(copy);
  return jobs.take();
}

unsigned scatter_blocks(const ScatterJob& job) {
  std::int64_t units = 1;
  for (int b = 0; b < job.count; ++b) units = std::max<std::int64_t>(units, job.boxes[b].units);
  const std::int64_t per_block = ScatterJob::kThreads * kUnitsPerThread;
  return static_cast<unsigned>((units + per_block - 1) / per_block);
}

}  // namespace loadstone
