#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loadstone/base/cuda_driver.h"

/// A CUDA driver without a GPU. Its device memory is host memory that it knows by range; its streams are threads, so
/// that what is not ordered by events or synchronisation does run out of order; kernels are plain functions by the
/// kernel's name. The same source is a filling of the driver table (C++ tests) and a stand-in libcuda.so.1 (command
/// line, Python), which LOADSTONE_FAKE_CUDA sets up:
/// "devices=2,memory=1GiB,delay_us=100,fail=cuMemAlloc:3,lost_after=20".
namespace loadstone::fake_cuda {

struct Options {
  int devices = 1;
  std::size_t memory = std::size_t{1} << 30;  ///< of each device
  int delay_us = 0;                           ///< every queued operation first sleeps a random time up to this
  std::string fail = "";                      ///< name of a function, e.g. "cuMemAlloc"
  std::int64_t fail_at = 0;                   ///< which call of it fails, from 1; 0 = none
  int fail_with = 2;
  /// After so many queued copies every call on device `lost_device` answers 719; 0 = never.
  std::int64_t lost_after = 0;
  int lost_device = 0;
  std::size_t pinned_limit = SIZE_MAX;  ///< bytes of page-locked memory that are given out
  bool pools = true;
  bool refuse_module = false;
  std::uint64_t seed = 1;
};

/// One call, as it was made.
struct Call {
  std::string name;
  std::uint64_t thread;
  int current_device;  ///< of the thread's context; -1 = none
};

/// What is alive that a caller made.
struct Alive {
  std::int64_t allocations = 0, device_bytes = 0, pinned = 0, registered = 0, streams = 0, events = 0, pools = 0;
  bool none() const {
    return allocations == 0 && pinned == 0 && registered == 0 && streams == 0 && events == 0 && pools == 0;
  }
  std::string text() const;
};

const cuda::Driver* table();
/// Forgets everything and starts anew. Waits for the streams.
void reset(const Options& options = {});
Alive alive();
std::vector<Call> calls();
/// How often a function was called since reset.
std::int64_t count(const std::string& name);
/// Makes the n-th call from now on of a function fail.
void fail(const std::string& name, std::int64_t nth, int with = 2);
/// Holds back what is queued on all streams until released.
void hold_streams(bool held);

using Kernel = std::function<void(void** arguments, unsigned grid_x, unsigned grid_y)>;
/// A plain twin of a kernel: called on the stream's thread with copies of the arguments' pointers as they were.
/// `argument_bytes` says how many bytes of each argument the launch copies.
void add_kernel(const std::string& name, std::vector<std::size_t> argument_bytes, Kernel kernel);

}  // namespace loadstone::fake_cuda
