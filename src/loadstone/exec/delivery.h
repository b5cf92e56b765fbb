#pragma once

#include <cstdint>
#include <vector>

#include "loadstone/exec/blocks.h"
#include "loadstone/exec/cuda_memory.h"
#include "loadstone/exec/scatter.h"

namespace loadstone {

/// Part of a host block on its way to a block in a GPU's memory.
struct Parcel {
  Block to;
  Block from;
  Box part;  ///< array indices, inside both
  DType dtype;
  std::int64_t swap = 1;  ///< as in strided_copy
};

/// How parcels of one worker get to one GPU: contiguous ones by the copy engine; others cross the link together, as
/// they lie in the host's slot, and a kernel scatters them there (or, without kernels, the copy engine row by row).
class Delivery {
 public:
  explicit Delivery(int ordinal);

  /// Queues the copies. `host` is the memory that all parcels come from; it must stay as it is until the stream has
  /// reached what is queued now. The GPU's context is made current. Error{system} naming the GPU.
  void send(std::span<const std::byte> host, const std::vector<Parcel>& parcels);
  /// Queues one copy of bytes.
  void send_bytes(cuda::DevicePtr to, std::span<const std::byte> from);

  int ordinal() const { return stream_.ordinal(); }
  cuda::Stream stream() const { return stream_.get(); }
  void synchronize() const { stream_.synchronize(); }

 private:
  void scatter(std::span<const std::byte> host, std::vector<ScatterCopy> copies);
  void copy_rows(const ScatterCopy& copy, std::vector<CopyDim> dims);
  void copy_gathered(const Parcel& parcel);

  cuda::OwnedStream stream_;
  StreamScratch staging_;
  cuda::Function kernel_;
};

}  // namespace loadstone
