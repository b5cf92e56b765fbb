#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "loadstone/base/cuda_context.h"
#include "loadstone/exec/executor.h"

namespace loadstone {

/// Device memory from a pool of the library's own (never the default pool, which is the framework's), or by plain
/// allocation where the GPU has no pools.
///
/// The bytes may be used at once on any stream. When the last user is gone they are given back after the work that is
/// then queued on the GPU's blocking streams; a reader on a non-blocking stream of its own must be waited for first.
/// Error{system} naming the GPU, what was wanted and what is free.
std::shared_ptr<Memory> allocate_device(std::int64_t bytes, int ordinal);

/// Buffers in the memory of each slot's device: GPUs as above, host as host_buffers().
std::unique_ptr<BufferProvider> device_buffers();

/// Compares what a plan needs of each GPU with what is free there, before anything is allocated. Error{system} naming
/// the GPU with both numbers.
void check_device_memory(const Plan& plan);

/// Scratch memory in the order of one stream: allocated and freed by it, without waiting.
class StreamScratch {
 public:
  StreamScratch(int ordinal, cuda::Stream stream) : ordinal_(ordinal), stream_(stream) {}
  StreamScratch(const StreamScratch&) = delete;
  StreamScratch& operator=(const StreamScratch&) = delete;
  ~StreamScratch();
  /// At least so many bytes; what it held before is gone. The context of `ordinal` must be current.
  cuda::DevicePtr take(std::int64_t bytes);

 private:
  int ordinal_;
  cuda::Stream stream_;
  cuda::DevicePtr memory_ = 0;
  std::int64_t bytes_ = 0;
  bool pooled_ = false;
};

}  // namespace loadstone
