#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "loadstone/array/dims.h"
#include "loadstone/exec/scatter_job.h"

namespace loadstone {

/// A strided copy inside one device, as an executor asks for it: elements of `itemsize` bytes, both sides with their
/// own byte strides (any sign, no overlap). The addresses are not touched here.
struct ScatterCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  Dims extents;
  Dims from_strides;
  Dims to_strides;
  std::int64_t itemsize = 1;
  std::int64_t swap = 0;  ///< 0, or the bytes of a value (2, 4, 8; divides itemsize) whose order is reversed
};

/// A dimension of a copy, in bytes.
struct CopyDim {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};
/// The copy as dimensions of single bytes, what is contiguous on both sides merged, the last one fastest in the
/// destination. Empty for a copy without elements; one dimension {n, 1, 1} for a contiguous one.
std::vector<CopyDim> merged_dims(const ScatterCopy& copy);

/// The kernel launches that do these copies: contiguous dimensions merged, the widest unit that every address and
/// stride allows. Copies without elements need none.
std::vector<ScatterJob> scatter_jobs(std::span<const ScatterCopy> copies);
/// Thread blocks in x for a job: what its largest copy needs.
unsigned scatter_blocks(const ScatterJob& job);

}  // namespace loadstone
