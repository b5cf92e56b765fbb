#include "loadstone/verify/pd61_job.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "loadstone/verify/pd61.h"
#include "loadstone/verify/pd61_kernel.h"

namespace loadstone {

using detail::mul61;
using detail::Pd61Mix;

namespace {

constexpr std::int64_t kVectorBytes = 16;
constexpr int kLoadsInFlight = 8;               // of a thread of the columns kernel
constexpr std::int64_t kItemsPerThread = 1024;  // at most 2048 products fit into a sum
constexpr std::int64_t kResident = 2;           // thread blocks of a multiprocessor at once
constexpr std::int64_t kWaves = 4;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// The dimensions from which on the box lies in the row, and in memory, without a gap.
int first_run_dim(const Pd61& rule, const Box& box, const Dims& strides) {
  const int ndim = box.ndim();
  // Of the row: dimensions after run_dim are whole.
  int run_dim = ndim;
  while (run_dim > rule.row_dim() && (run_dim == ndim || box.extent(run_dim) == rule.shape()[run_dim])) --run_dim;
  std::int64_t expected = rule.dtype().itemsize();
  int contiguous = ndim;
  while (contiguous > run_dim && (box.extent(contiguous - 1) == 1 || strides[contiguous - 1] == expected)) {
    --contiguous;
    expected *= box.extent(contiguous);
  }
  return std::max(run_dim, contiguous);
}

struct Described {
  Pd61Launch launch;
  bool in_row = false;                // some dimension moves along the row
  std::int64_t align = kVectorBytes;  // of the offsets in the row, as far as runs differ in them
};

std::optional<Described> describe(const Pd61& rule, const Box& box, const void* data, const Dims& strides) {
  const std::int64_t itemsize = rule.dtype().itemsize();
  const int ndim = box.ndim();
  const int run_dim = first_run_dim(rule, box, strides);
  Described out;
  Pd61Job& job = out.launch.job;
  job = {};
  job.data = static_cast<const unsigned char*>(data);
  out.launch.lanes = rule.lanes();
  const std::array<std::uint64_t, 2> keys{rule.keys().k0, rule.keys().k1};
  for (std::size_t lane = 0; lane < 2; ++lane) {
    job.mix61[lane] = Pd61Mix::of(keys[lane], 61).base;
    job.mix62[lane] = Pd61Mix::of(keys[lane], 62).base;
  }
  job.run_bytes = itemsize;
  for (int d = run_dim; d < ndim; ++d) job.run_bytes *= box.extent(d);
  job.runs = 1;
  std::int64_t row_step = itemsize;
  for (int d = ndim - 1; d >= 0; --d) {
    const bool inside = d >= rule.row_dim();
    if (inside) {
      job.first_byte += box.begin[d] * row_step;
    }
    if (d < run_dim) {
      const std::int64_t extent = box.extent(d);
      if (!inside && extent == 1) {
        for (std::size_t lane = 0; lane < 2; ++lane) {
          const Pd61Mix mix = Pd61Mix::of(keys[lane], static_cast<std::uint64_t>(d));
          out.launch.factor[lane] = mul61(out.launch.factor[lane], mix(static_cast<std::uint64_t>(box.begin[d])));
        }
      } else if (extent > 1) {
        if (job.ndim == Pd61Job::kMaxDims) return std::nullopt;
        Pd61Job::Dim& dim = job.dims[job.ndim++];
        dim = {};
        dim.extent = extent;
        dim.stride = strides[d];
        if (inside) {
          dim.row_step = row_step;
          out.in_row = true;
          out.align = std::gcd(out.align, row_step);
        } else {
          dim.begin = box.begin[d];
          for (std::size_t lane = 0; lane < 2; ++lane) {
            dim.mix[lane] = Pd61Mix::of(keys[lane], static_cast<std::uint64_t>(d)).base;
          }
        }
        job.runs *= extent;
      }
    }
    row_step *= rule.shape()[d];
  }
  // Sums do not mind the order: neighbouring threads take what lies closest in memory.
  std::sort(job.dims, job.dims + job.ndim,
            [](const Pd61Job::Dim& a, const Pd61Job::Dim& b) { return std::abs(a.stride) > std::abs(b.stride); });
  return out;
}

/// True if the runs suit the columns kernel; then its fields are set.
bool set_columns(Described& what, int multiprocessors) {
  Pd61Job& job = what.launch.job;
  if (what.in_row) return false;
  const std::int64_t last = job.first_byte + job.run_bytes - 1;
  job.blocks_per_run = last / Pd61Job::kBlockBytes - job.first_byte / Pd61Job::kBlockBytes + 1;
  job.width = Pd61Job::kThreads;
  if (job.blocks_per_run == 1) {
    job.first_vector = static_cast<std::int32_t>(job.first_byte % Pd61Job::kBlockBytes / kVectorBytes);
    const std::int64_t vectors = last / kVectorBytes - job.first_byte / kVectorBytes + 1;
    job.width = 1;
    while (job.width < vectors) job.width *= 2;
  } else if (job.run_bytes * 4 < job.blocks_per_run * Pd61Job::kBlockBytes) {
    return false;  // most threads would idle
  }
  if (job.blocks_per_run == 1) {
    for (std::size_t lane = 0; lane < 2; ++lane) {
      const Pd61Mix block{job.mix61[lane]};
      what.launch.factor[lane] =
          mul61(what.launch.factor[lane], block(static_cast<std::uint64_t>(job.first_byte / Pd61Job::kBlockBytes)));
    }
  }
  job.items = job.runs * job.blocks_per_run;
  const std::int64_t groups = Pd61Job::kThreads / job.width;
  // Whole waves of thread blocks, so that no multiprocessor idles at the end.
  const std::int64_t resident = multiprocessors * kResident;
  const std::int64_t waves = std::max(ceil_div(job.items, resident * groups * kItemsPerThread),
                                      std::min(kWaves, ceil_div(job.items, resident * Pd61Job::kThreads)));
  job.items_per_block = std::max(ceil_div(job.items, resident * waves), groups * kLoadsInFlight);
  what.launch.blocks = static_cast<unsigned>(ceil_div(job.items, job.items_per_block));
  what.launch.columns = true;
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(job.data));
  what.launch.aligned = address % kVectorBytes == 0 && job.first_byte % kVectorBytes == 0 &&
                        job.run_bytes % kVectorBytes == 0 &&
                        std::all_of(job.dims, job.dims + job.ndim,
                                    [](const Pd61Job::Dim& dim) { return dim.stride % kVectorBytes == 0; });
  const bool whole_blocks = job.first_byte % Pd61Job::kBlockBytes == 0 && job.run_bytes % Pd61Job::kBlockBytes == 0;
  what.launch.full =
      what.launch.aligned && (job.blocks_per_run == 1 ? job.run_bytes == job.width * kVectorBytes : whole_blocks);
  return true;
}

void set_vectors(Described& what, int multiprocessors) {
  Pd61Job& job = what.launch.job;
  // The latest place in a vector where a run may begin.
  const std::int64_t latest = kVectorBytes - what.align + job.first_byte % what.align;
  job.vectors_per_run = ceil_div(latest + job.run_bytes, kVectorBytes);
  job.items = job.runs * job.vectors_per_run;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(ceil_div(job.items, Pd61Job::kThreads), 1, std::int64_t{multiprocessors} * kWaves * 4);
  what.launch.blocks = static_cast<unsigned>(blocks);
  std::int64_t step = blocks * Pd61Job::kThreads;
  job.vector_step = step % job.vectors_per_run;
  step /= job.vectors_per_run;
  for (int d = job.ndim - 1; d >= 0; --d) {
    job.dims[d].step = step % job.dims[d].extent;
    step /= job.dims[d].extent;
  }
}

}  // namespace

const char* Pd61Launch::kernel() const {
  if (!columns) return lanes == 1 ? "loadstone_pd61_vectors_1" : "loadstone_pd61_vectors_2";
  if (full) return lanes == 1 ? "loadstone_pd61_columns_1_full" : "loadstone_pd61_columns_2_full";
  if (aligned) return lanes == 1 ? "loadstone_pd61_columns_1" : "loadstone_pd61_columns_2";
  return lanes == 1 ? "loadstone_pd61_columns_1_any" : "loadstone_pd61_columns_2_any";
}

std::optional<Pd61Launch> make_pd61_launch(const Pd61& rule, const Box& box, const void* data,
                                           const Dims& strides_bytes, int multiprocessors) {
  if (!rule.dtype().whole_bytes()) return std::nullopt;
  std::optional<Described> what = describe(rule, box, data, strides_bytes);
  if (!what) return std::nullopt;
  if (!set_columns(*what, multiprocessors)) set_vectors(*what, multiprocessors);
  return what->launch;
}

}  // namespace loadstone
