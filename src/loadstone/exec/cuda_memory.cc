#include "loadstone/exec/cuda_memory.h"

#include <map>
#include <mutex>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

namespace loadstone {

namespace {

using cuda::DevicePtr;

/// A GPU's pool and the stream that orders its allocations. Kept as long as the process.
struct Pool {
  cuda::MemPool pool = nullptr;
  std::unique_ptr<cuda::OwnedStream> stream;
};

std::mutex pools_mutex;
// By generation of the driver and GPU. The driver takes all back at exit, when streams can no longer be destroyed.
std::map<std::pair<std::uint64_t, int>, Pool*>* pools = nullptr;

Pool& pool_of(int ordinal) {
  const std::lock_guard<std::mutex> lock(pools_mutex);
  if (pools == nullptr) pools = new std::map<std::pair<std::uint64_t, int>, Pool*>;
  Pool*& entry = (*pools)[{cuda::driver_generation(), ordinal}];
  if (entry != nullptr) return *entry;
  const cuda::Scope scope(ordinal);
  auto made = std::make_unique<Pool>();
  made->stream = std::make_unique<cuda::OwnedStream>(ordinal);
  if (cuda::device_info(ordinal).memory_pools) {
    cuda::MemPoolProps props{};
    props.alloc_type = 1;
    props.location = {1, ordinal};
    cuda::check(cuda::driver()->mem_pool_create(&made->pool, &props), cat("make a memory pool on cuda:", ordinal));
    std::uint64_t threshold = 0;
    cuda::driver()->mem_pool_set_attribute(made->pool, cuda::kPoolReleaseThreshold, &threshold);
  }
  entry = made.release();
  return *entry;
}

[[noreturn]] void no_memory(cuda::Result result, std::int64_t bytes, int ordinal) {
  std::string free;
  cuda::MemoryInfo info;
  if (cuda::driver()->mem_get_info(&info.free, &info.total) == cuda::kSuccess) {
    free = cat(", ", info.free, " of ", info.total, " bytes are free");
  }
  throw Error(ErrorKind::system,
              cat("cuda:", ordinal, ": no memory for ", bytes, " bytes", free, ": ", cuda::result_text(result)));
}

void free_device(DevicePtr pointer, int ordinal, bool pooled) {
  try {
    const cuda::Scope scope(ordinal);
    const cuda::Driver& driver = *cuda::driver();
    if (!pooled) {
      driver.mem_free(pointer);
      return;
    }
    const cuda::Stream stream = pool_of(ordinal).stream->get();
    // The legacy default stream waits for all blocking streams: readers there are done before the bytes are reused.
    cuda::Event done = nullptr;
    if (driver.event_create(&done, cuda::kEventDisableTiming) == cuda::kSuccess) {
      if (driver.event_record(done, nullptr) == cuda::kSuccess) driver.stream_wait_event(stream, done, 0);
      driver.event_destroy(done);
    }
    driver.mem_free_async(pointer, stream);
  } catch (const Error&) {  // the GPU is gone, and the memory with it
  }
}

DevicePtr address(const std::byte* pointer) {
  return static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(pointer));
}

class DeviceBuffers final : public BufferProvider {
 public:
  View buffer(const Plan& plan, std::int32_t slot) override {
    const Slot& wanted = plan.slots[static_cast<std::size_t>(slot)];
    if (wanted.shard.device.place.kind != PlaceKind::cuda) return host_->buffer(plan, slot);
    const DType dtype = plan.arrays[static_cast<std::size_t>(wanted.array)].dtype;
    return View(allocate_device(wanted.nbytes, wanted.shard.device.place.ordinal), 0, Layout(wanted.shard.box.shape()),
                dtype);
  }

 private:
  std::unique_ptr<BufferProvider> host_ = host_buffers();
};

}  // namespace

std::shared_ptr<Memory> allocate_device(std::int64_t bytes, int ordinal) {
  const Place place{PlaceKind::cuda, ordinal};
  const cuda::Scope scope(ordinal);
  if (bytes == 0) return std::make_shared<Memory>(nullptr, 0, place, false, Memory::Release());
  Pool& pool = pool_of(ordinal);
  const bool pooled = pool.pool != nullptr;
  DevicePtr pointer = 0;
  const cuda::Driver& driver = *cuda::driver();
  const auto size = static_cast<std::size_t>(bytes);
  cuda::Result result = pooled ? driver.mem_alloc_from_pool_async(&pointer, size, pool.pool, pool.stream->get())
                               : driver.mem_alloc(&pointer, size);
  if (result != cuda::kSuccess) no_memory(result, bytes, ordinal);
  if (pooled) result = driver.stream_synchronize(pool.stream->get());  // other streams may use it from now on
  if (result != cuda::kSuccess) {
    free_device(pointer, ordinal, pooled);
    no_memory(result, bytes, ordinal);
  }
  const auto release = [ordinal, pooled](std::byte* base, std::int64_t) {
    free_device(address(base), ordinal, pooled);
  };
  return std::make_shared<Memory>(reinterpret_cast<std::byte*>(pointer), bytes, place, false, release);
}

std::unique_ptr<BufferProvider> device_buffers() {
  return std::make_unique<DeviceBuffers>();
}

void check_device_memory(const Plan& plan) {
  std::map<int, std::int64_t> needed;
  for (const Slot& slot : plan.slots) {
    if (slot.shard.device.place.kind == PlaceKind::cuda) needed[slot.shard.device.place.ordinal] += slot.nbytes;
  }
  for (const auto& [ordinal, bytes] : needed) {
    const cuda::MemoryInfo info = cuda::memory_info(ordinal);
    if (static_cast<std::uint64_t>(bytes) <= info.free) continue;
    ErrorFacts facts;
    facts.expected = cat(bytes, " bytes");
    facts.found = cat(info.free, " bytes");
    throw Error(ErrorKind::system,
                cat("cuda:", ordinal, " (", cuda::device_info(ordinal).name, "): the shards need ", bytes,
                    " bytes, of ", info.total, " bytes ", info.free, " are free"),
                std::move(facts));
  }
}

StreamScratch::~StreamScratch() {
  if (memory_ == 0) return;
  try {
    const cuda::Scope scope(ordinal_);
    if (pooled_) {
      cuda::driver()->mem_free_async(memory_, stream_);
    } else {
      cuda::driver()->mem_free(memory_);
    }
  } catch (const Error&) {
  }
}

cuda::DevicePtr StreamScratch::take(std::int64_t bytes) {
  if (bytes <= bytes_) return memory_;
  const cuda::Driver& driver = *cuda::driver();
  if (memory_ != 0) {
    if (pooled_) {
      driver.mem_free_async(memory_, stream_);
    } else {
      driver.mem_free(memory_);
    }
    memory_ = 0;
    bytes_ = 0;
  }
  Pool& pool = pool_of(ordinal_);
  pooled_ = pool.pool != nullptr;
  const auto size = static_cast<std::size_t>(bytes);
  const cuda::Result result =
      pooled_ ? driver.mem_alloc_from_pool_async(&memory_, size, pool.pool, stream_) : driver.mem_alloc(&memory_, size);
  if (result != cuda::kSuccess) {
    memory_ = 0;
    no_memory(result, bytes, ordinal_);
  }
  bytes_ = bytes;
  return memory_;
}

}  // namespace loadstone
