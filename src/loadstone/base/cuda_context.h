#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "loadstone/base/cuda_driver.h"

namespace loadstone::cuda {

/// A GPU as the driver names it, after CUDA_VISIBLE_DEVICES.
struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  std::string uuid;        ///< "GPU-8f6e…", as nvidia-smi prints it
  std::string pci_bus_id;  ///< "0000:1b:00.0"
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int numa_node = -1;  ///< -1: not known
  bool memory_pools = false;
};

/// 0 where there is no driver.
int device_count();
/// Error{system} naming the GPU, how many there are and why.
const DeviceInfo& device_info(int ordinal);

/// Makes a GPU's primary context current on this thread for a scope, then the caller's again. The primary context is
/// the one that JAX, PyTorch and CuPy use; it is retained once and kept.
class Scope {
 public:
  /// Error{system} when there is no such GPU or it does not answer.
  explicit Scope(int ordinal);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope();

 private:
  const Driver* driver_;
};
/// The retained primary context of a GPU.
Context primary_context(int ordinal);

/// A stream of its own on a GPU, without order to any other; taken from those that are idle, and given back.
class OwnedStream {
 public:
  explicit OwnedStream(int ordinal);
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  /// Waits for what is queued.
  ~OwnedStream();
  Stream get() const { return stream_; }
  int ordinal() const { return ordinal_; }
  /// Error{system} with the first failure of what was queued.
  void synchronize() const;

 private:
  int ordinal_;
  std::uint64_t generation_;
  Stream stream_ = nullptr;
};

/// An event without a clock. Records and waits belong to the GPU it was made on.
class OwnedEvent {
 public:
  explicit OwnedEvent(int ordinal);
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent();
  Event get() const { return event_; }

 private:
  int ordinal_;
  std::uint64_t generation_;
  Event event_ = nullptr;
};

/// Copies bytes from a GPU's memory and waits for them; what other streams still write there is not waited for.
void copy_to_host(std::byte* to, const std::byte* from, std::int64_t bytes, int ordinal);

struct MemoryInfo {
  std::size_t free = 0, total = 0;
};
MemoryInfo memory_info(int ordinal);

/// A kernel of this library on a GPU (its name as in src/loadstone/cuda). nullptr where kernels cannot be used;
/// kernels_problem says why.
Function kernel(int ordinal, const char* name);
/// "" where the kernels can be used on this GPU.
std::string kernels_problem(int ordinal);

/// Destroys the streams and events that are kept for later use and not in use now.
void release_idle();

/// Called by use_driver_for_tests.
void forget_devices_for_tests();

}  // namespace loadstone::cuda
