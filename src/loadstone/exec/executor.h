#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loadstone/base/cancel.h"
#include "loadstone/base/progress.h"
#include "loadstone/base/thread_pool.h"
#include "loadstone/base/trace.h"
#include "loadstone/exec/placement.h"
#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

namespace loadstone {

/// Where the buffers of a load come from. The default allocates host memory.
class BufferProvider {
 public:
  virtual ~BufferProvider() = default;
  /// A writable C-order view of slot's shape and dtype in memory of the slot's device. Bytes are uninitialised. May be
  /// called for all slots before any I/O starts. Error{system} when there is no memory.
  virtual View buffer(const Plan& plan, std::int32_t slot) = 0;
};
/// Host memory, one allocation a slot, 64-byte aligned. Refuses other kinds of device with Error{system}.
std::unique_ptr<BufferProvider> host_buffers();

struct ExecOptions {
  const ThreadPool* pool = nullptr;      ///< required
  ByteSourceFactory* sources = nullptr;  ///< null = pread_sources()
  BufferProvider* buffers = nullptr;     ///< null = host_buffers()
  CancelToken* cancel = nullptr;
  ProgressFn progress;
  Trace* trace = nullptr;
  /// Called for each target of each window, from several workers at once, after the bytes have arrived and before the
  /// window is given up. Must not throw. For digests.
  std::function<void(int worker, const ArrivedBytes&)> tap;
  int max_open_files = 0;  ///< 0 = from RLIMIT_NOFILE
  /// Decodes stored pieces instead of Format::decode, by the same contract; null = the format's own. Called from
  /// several workers at once.
  std::function<void(const Encoding& encoding, const Piece& piece, DType dtype, std::span<const std::byte> stored,
                     std::span<std::byte> out)>
      decode;
};

/// Runs plans. One implementation a file: threads.cc (host memory), cuda.cc (GPUs). Keep the virtual coarse.
class Executor {
 public:
  virtual ~Executor() = default;
  /// Fills every slot: each byte of each slot written exactly once, or an exception and nothing handed out. On failure
  /// stops starting, drains what is in flight, frees its buffers, then throws the first failure with the number of
  /// others (loading E1, E8). Checks that need no I/O come before memory is allocated (E3).
  virtual Placement run(const Catalog& catalog, const Plan& plan, const ExecOptions& options) = 0;
};

/// One executor: a constant in its own file, listed in CMake's loadstone_add_table(executor …).
struct ExecutorEntry {
  std::string_view name;
  /// "" if it can run here, else the reason for `loadstone doctor`.
  std::string (*available)();
  /// True if it can fill memory of this device.
  bool (*serves)(const Device& device);
  std::unique_ptr<Executor> (*make)();
};
std::span<const ExecutorEntry* const> all_executors();
/// The one that serves every device of the plan. Error{system} naming the device and the reason when there is none.
std::unique_ptr<Executor> executor_for(const Plan& plan);

/// The reference: one thread, one element run at a time, no coalescing. Slow and plainly right; tests compare with it.
std::unique_ptr<Executor> make_serial_executor();

}  // namespace loadstone
