#pragma once

#include <cstdint>
#include <optional>

namespace loadstone {

class Pd61;
class Dims;
struct Box;

/// What a kernel is told of a tile that is to be digested. Plain data, passed by value as the kernel's only argument
/// but for the place of the result; the kernels (cuda/pd61.cuh) and their plain twin (tests/fakes/cuda_kernels.cc)
/// include nothing else of the library.
///
/// A tile is a set of runs: bytes that lie without a gap in memory and in one row of the digest. The dimensions before
/// the runs say where each begins in memory, and either multiply the run's sum (dimensions before the row) or move it
/// along the row (dimensions inside).
struct Pd61Job {
  static constexpr int kMaxDims = 8;
  static constexpr int kThreads = 256;               ///< of a thread block, whatever the kernel
  static constexpr std::int64_t kBlockBytes = 4096;  ///< bytes with one coefficient F(61, ·)

  struct Dim {
    std::uint64_t mix[2];  ///< base of F(d, ·) for both lanes; unused inside the row
    std::int64_t begin;    ///< first index in the global array; unused inside the row
    std::int64_t extent;
    std::int64_t stride;    ///< bytes of memory for one step
    std::int64_t row_step;  ///< bytes of the row for one step; 0 before the row
    std::int64_t step;      ///< by how much this digit grows when a thread goes on to its next item
  };
  Dim dims[kMaxDims];
  const unsigned char* data;
  std::uint64_t mix61[2], mix62[2];
  std::int64_t run_bytes;
  std::int64_t first_byte;  ///< of the row, where the first run begins
  std::int64_t runs;
  std::int64_t items;            ///< pieces of work: 4 KiB blocks of runs, or vectors of 16 bytes of runs
  std::int64_t items_per_block;  ///< columns kernel: for each thread block
  std::int32_t ndim;
  /// Columns kernel: threads that share a 4 KiB block of a run, each with four columns of its own.
  std::int32_t width;
  std::int32_t first_vector;
  std::int64_t blocks_per_run;  ///< 1: all runs lie in one block of their rows, and F(61, ·) is in Pd61Launch::factor
  /// Vectors kernel: 16-byte vectors (aligned in the row) that a run may touch.
  std::int64_t vectors_per_run;
  std::int64_t vector_step;
};

/// How a tile is digested on a device.
struct Pd61Launch {
  Pd61Job job;
  bool columns = false;  ///< which kernel: a thread with its own columns, or one with its own vectors
  bool aligned = false;  ///< columns: every vector is whole and 16-byte aligned in memory
  bool full = false;     ///< columns: and every thread has one in every block
  int lanes = 1;
  unsigned blocks = 0;  ///< thread blocks; the result is one sum for each block and lane
  /// What all of the tile is multiplied by: the coefficients of dimensions with one index, and of the block.
  std::uint64_t factor[2] = {1, 1};
  /// The kernel's name.
  const char* kernel() const;
};

/// `data` is only an address here. Nothing when the layout is one that the kernels do not take: types of less than a
/// byte, more than 8 dimensions before the runs. The tile must not be empty.
std::optional<Pd61Launch> make_pd61_launch(const Pd61& rule, const Box& box, const void* data,
                                           const Dims& strides_bytes, int multiprocessors);

}  // namespace loadstone
