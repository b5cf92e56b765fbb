#include "tests/fakes/cuda_driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/fakes/cuda_kernels.h"

using namespace loadstone;
using namespace loadstone::cuda;

namespace loadstone::cuda {

struct CUctx_st {
  int device = 0;
};
/// Set once the work before it is done.
struct Mark {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  void set() {
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
  bool is_set() {
    const std::lock_guard<std::mutex> lock(mutex);
    return done;
  }
};
struct CUevent_st {
  std::shared_ptr<Mark> mark;
};
struct CUstream_st {
  int device = 0;
  std::thread worker;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool busy = false;
  bool ending = false;
  bool capturing = false;
};
struct CUmod_st {};
struct CUfunc_st {
  std::string name;
};
struct CUmemPoolHandle_st {
  int device = 0;
};

}  // namespace loadstone::cuda

namespace loadstone::fake_cuda {

namespace {

constexpr int kDeviceLost = 719;

enum class Kind { device, pinned, registered };
struct Range {
  std::size_t size = 0;
  Kind kind = Kind::device;
  int device = 0;
  bool pooled = false;
};
struct KernelEntry {
  std::vector<std::size_t> argument_bytes;
  Kernel run;
};

struct Machine {
  std::mutex mutex;
  Options options;
  std::map<std::uintptr_t, Range> ranges;
  std::vector<std::size_t> used;
  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::vector<std::unique_ptr<CUstream_st>> default_streams;
  std::set<CUstream_st*> streams;
  std::mutex destroying;  // no stream goes while another call waits for all of them
  std::set<CUevent_st*> events;
  std::int64_t pools = 0;
  std::size_t pinned_bytes = 0;
  std::map<std::string, std::int64_t> counts;
  std::map<std::string, std::map<std::int64_t, int>> failures;
  std::vector<Call> log;
  std::map<std::string, KernelEntry> kernels;
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
  std::int64_t copies = 0;
  std::vector<int> sticky;  // by device: the error that every call answers
  std::atomic<bool> held{false};
  std::mutex held_mutex;
  std::condition_variable held_changed;
  std::mt19937_64 random{1};
  bool started = false;
};

Machine& machine() {
  static Machine* const value = new Machine;
  return *value;
}

thread_local std::vector<CUctx_st*> current_contexts;

int current_device() {
  return current_contexts.empty() || current_contexts.back() == nullptr ? -1 : current_contexts.back()->device;
}

void add_standard_kernels(Machine& m) {
  const auto pd61 = [](int lanes) {
    return KernelEntry{{sizeof(Pd61Job), sizeof(unsigned long long*)},
                       [lanes](void** arguments, unsigned blocks, unsigned) {
                         unsigned long long* out = nullptr;
                         std::memcpy(&out, arguments[1], sizeof(out));
                         pd61_twin(*static_cast<const Pd61Job*>(arguments[0]), lanes, blocks, out);
                       }};
  };
  for (const char* name : {"loadstone_pd61_columns_1_full", "loadstone_pd61_columns_1", "loadstone_pd61_columns_1_any",
                           "loadstone_pd61_vectors_1"}) {
    m.kernels[name] = pd61(1);
  }
  for (const char* name : {"loadstone_pd61_columns_2_full", "loadstone_pd61_columns_2", "loadstone_pd61_columns_2_any",
                           "loadstone_pd61_vectors_2"}) {
    m.kernels[name] = pd61(2);
  }
  m.kernels["loadstone_scatter"] = {{sizeof(ScatterJob)}, [](void** arguments, unsigned, unsigned) {
                                      scatter_twin(*static_cast<const ScatterJob*>(arguments[0]));
                                    }};
}

std::size_t size_of(const std::string& text) {
  char* end = nullptr;
  auto value = static_cast<std::size_t>(std::strtoull(text.c_str(), &end, 10));
  const std::string unit = end;
  if (unit == "KiB") value <<= 10;
  if (unit == "MiB") value <<= 20;
  if (unit == "GiB") value <<= 30;
  return value;
}

Options options_of_environment() {
  Options out;
  const char* text = std::getenv("LOADSTONE_FAKE_CUDA");
  std::string rest = text == nullptr ? "" : text;
  while (!rest.empty()) {
    const std::string item = rest.substr(0, rest.find(','));
    rest = item.size() == rest.size() ? "" : rest.substr(item.size() + 1);
    const std::string key = item.substr(0, item.find('='));
    const std::string value = key.size() == item.size() ? "1" : item.substr(key.size() + 1);
    if (key == "devices") out.devices = std::atoi(value.c_str());
    if (key == "memory") out.memory = size_of(value);
    if (key == "delay_us") out.delay_us = std::atoi(value.c_str());
    if (key == "lost_after") out.lost_after = std::atoll(value.c_str());
    if (key == "lost_device") out.lost_device = std::atoi(value.c_str());
    if (key == "pinned_limit") out.pinned_limit = size_of(value);
    if (key == "pools") out.pools = value != "0";
    if (key == "refuse_module") out.refuse_module = value != "0";
    if (key == "fail") {
      out.fail = value.substr(0, value.find(':'));
      out.fail_at = out.fail.size() == value.size() ? 1 : std::atoll(value.c_str() + out.fail.size() + 1);
    }
  }
  return out;
}

void run_stream(CUstream_st* stream);

std::unique_ptr<CUstream_st> make_stream(int device) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = device;
  stream->worker = std::thread(run_stream, stream.get());
  return stream;
}

void start_locked(Machine& m) {
  if (m.started) return;
  m.started = true;
  const int devices = m.options.devices;
  m.used.assign(static_cast<std::size_t>(devices), 0);
  m.sticky.assign(static_cast<std::size_t>(devices), 0);
  for (int i = 0; i < devices; ++i) {
    m.contexts.push_back(std::make_unique<CUctx_st>());
    m.contexts.back()->device = i;
    m.default_streams.push_back(make_stream(i));
  }
  m.random.seed(m.options.seed);
  if (m.options.fail_at > 0) m.failures[m.options.fail][m.options.fail_at] = m.options.fail_with;
  add_standard_kernels(m);
}

/// Notes a call; 0, or the error it is to answer.
int enter(const char* name, bool needs_context = true) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (!m.started) {
    m.options = options_of_environment();
    start_locked(m);
  }
  const int device = current_device();
  m.log.push_back({name, std::hash<std::thread::id>{}(std::this_thread::get_id()), device});
  const std::int64_t nth = ++m.counts[name];
  if (const auto it = m.failures.find(name); it != m.failures.end()) {
    if (const auto hit = it->second.find(nth); hit != it->second.end()) return hit->second;
  }
  if (needs_context && device < 0) return kInvalidContext;
  if (needs_context && m.sticky[static_cast<std::size_t>(device)] != 0)
    return m.sticky[static_cast<std::size_t>(device)];
  return kSuccess;
}

CUstream_st* resolve(Stream stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle > 2) return stream;
  return machine().default_streams[static_cast<std::size_t>(std::max(current_device(), 0))].get();
}

void pause(CUstream_st* stream) {
  Machine& m = machine();
  {
    std::unique_lock<std::mutex> lock(m.held_mutex);
    m.held_changed.wait(lock, [&] { return !m.held.load() || stream->ending; });
  }
  int delay = 0;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (m.options.delay_us > 0) delay = static_cast<int>(m.random() % static_cast<unsigned>(m.options.delay_us));
  }
  if (delay > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay));
}

void run_stream(CUstream_st* stream) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(stream->mutex);
      stream->changed.wait(lock, [&] { return stream->ending || !stream->queue.empty(); });
      if (stream->queue.empty()) return;
      work = std::move(stream->queue.front());
      stream->queue.pop_front();
      stream->busy = true;
    }
    pause(stream);
    work();
    {
      const std::lock_guard<std::mutex> lock(stream->mutex);
      stream->busy = false;
      stream->changed.notify_all();
    }
  }
}

void push(CUstream_st* stream, std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(stream->mutex);
  stream->queue.push_back(std::move(work));
  stream->changed.notify_all();
}

void drain(CUstream_st* stream) {
  std::unique_lock<std::mutex> lock(stream->mutex);
  stream->changed.wait(lock, [&] { return stream->queue.empty() && !stream->busy; });
}

void end_stream(CUstream_st* stream) {
  {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->ending = true;
    stream->changed.notify_all();
  }
  stream->worker.join();
}

/// The range that holds all of [address, address + bytes), locked.
const Range* find_locked(Machine& m, std::uintptr_t address, std::size_t bytes, std::uintptr_t* start = nullptr) {
  auto it = m.ranges.upper_bound(address);
  if (it == m.ranges.begin()) return nullptr;
  --it;
  if (address - it->first > it->second.size || bytes > it->second.size - (address - it->first)) return nullptr;
  if (bytes == 0 && address - it->first == it->second.size) return nullptr;
  if (start != nullptr) *start = it->first;
  return &it->second;
}

bool is_device(Machine& m, std::uintptr_t address, std::size_t bytes) {
  const Range* range = find_locked(m, address, bytes);
  return range != nullptr && range->kind == Kind::device;
}

void break_device(int device, int error) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  int& sticky = m.sticky[static_cast<std::size_t>(device)];
  if (sticky == 0) sticky = error;
}

/// A copy, checked when it runs, as the real one is.
int queue_copy(CUstream_st* stream, std::uintptr_t to, bool to_device, std::uintptr_t from, bool from_device,
               std::size_t bytes) {
  Machine& m = machine();
  bool pageable = false;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (!from_device) pageable = find_locked(m, from, bytes) == nullptr;
    if (!to_device) pageable = find_locked(m, to, bytes) == nullptr;
  }
  const auto run = [=] {
    Machine& mm = machine();
    bool good = true;
    bool lost = false;
    {
      const std::lock_guard<std::mutex> lock(mm.mutex);
      if (to_device) good = good && is_device(mm, to, bytes);
      if (from_device) good = good && is_device(mm, from, bytes);
      ++mm.copies;
      lost = mm.options.lost_after > 0 && mm.copies > mm.options.lost_after && stream->device == mm.options.lost_device;
      good = good && mm.sticky[static_cast<std::size_t>(stream->device)] == 0;
    }
    if (lost) return break_device(stream->device, kDeviceLost);
    if (!good) return break_device(stream->device, kIllegalAddress);
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  };
  push(stream, run);
  // The real driver has taken pageable bytes by the time it returns.
  if (pageable) drain(stream);
  return kSuccess;
}

int sticky_of(int device) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  return device < 0 ? 0 : m.sticky[static_cast<std::size_t>(device)];
}

int allocate(DevicePtr* out, std::size_t bytes, int device, bool pooled) {
  Machine& m = machine();
  if (bytes == 0) return kInvalidValue;
  const std::lock_guard<std::mutex> lock(m.mutex);
  std::size_t& used = m.used[static_cast<std::size_t>(device)];
  if (bytes > m.options.memory - std::min(used, m.options.memory)) return kOutOfMemory;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return kOutOfMemory;
  std::memset(memory, 0xDD, bytes);  // what was never written shows
  used += bytes;
  m.ranges[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, Kind::device, device, pooled};
  *out = reinterpret_cast<DevicePtr>(memory);
  return kSuccess;
}

int release(DevicePtr pointer) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const auto it = m.ranges.find(static_cast<std::uintptr_t>(pointer));
  if (it == m.ranges.end() || it->second.kind != Kind::device) return kInvalidValue;
  m.used[static_cast<std::size_t>(it->second.device)] -= it->second.size;
  std::memset(reinterpret_cast<void*>(it->first), 0xEE, it->second.size);  // what is used after this shows
  std::free(reinterpret_cast<void*>(it->first));
  m.ranges.erase(it);
  return kSuccess;
}

// ---- the driver's functions ----

Result init(unsigned) {
  return enter("cuInit", false);
}
Result driver_get_version(int* version) {
  *version = 13000;
  return enter("cuDriverGetVersion", false);
}
const char* name_of(Result result) {
  switch (result) {
    case 0: return "CUDA_SUCCESS";
    case 1: return "CUDA_ERROR_INVALID_VALUE";
    case 2: return "CUDA_ERROR_OUT_OF_MEMORY";
    case 100: return "CUDA_ERROR_NO_DEVICE";
    case 101: return "CUDA_ERROR_INVALID_DEVICE";
    case 201: return "CUDA_ERROR_INVALID_CONTEXT";
    case 209: return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case 500: return "CUDA_ERROR_NOT_FOUND";
    case 600: return "CUDA_ERROR_NOT_READY";
    case 700: return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case 719: return "CUDA_ERROR_LAUNCH_FAILED";
    case 800: return "CUDA_ERROR_NOT_PERMITTED";
    default: return "CUDA_ERROR_UNKNOWN";
  }
}
Result get_error_name(Result result, const char** out) {
  *out = name_of(result);
  return kSuccess;
}
Result get_error_string(Result result, const char** out) {
  *out = result == kOutOfMemory      ? "out of memory"
         : result == kIllegalAddress ? "an illegal memory access was encountered"
                                     : "as told by the fake driver";
  return kSuccess;
}
Result device_get_count(int* count) {
  const int error = enter("cuDeviceGetCount", false);
  *count = machine().options.devices;
  return error;
}
Result device_get(Device* device, int ordinal) {
  const int error = enter("cuDeviceGet", false);
  if (ordinal < 0 || ordinal >= machine().options.devices) return 101;
  *device = ordinal;
  return error;
}
Result device_get_name(char* name, int size, Device) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU");
  return enter("cuDeviceGetName", false);
}
Result device_get_uuid(Uuid* uuid, Device device) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<unsigned char>(i == 15 ? device : 0x10 + i);
  return enter("cuDeviceGetUuid", false);
}
Result device_get_attribute(int* value, int attribute, Device) {
  const int error = enter("cuDeviceGetAttribute", false);
  switch (attribute) {
    case kMultiprocessorCount: *value = 4; break;
    case kComputeCapabilityMajor: *value = 9; break;
    case kMemoryPoolsSupported: *value = machine().options.pools ? 1 : 0; break;
    case kHostNumaId: *value = -1; break;
    default: *value = 0;
  }
  return error;
}
Result device_get_pci_bus_id(char* text, int size, Device device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device + 1);
  return enter("cuDeviceGetPCIBusId", false);
}
Result device_can_access_peer(int* can, Device, Device) {
  *can = 1;
  return enter("cuDeviceCanAccessPeer", false);
}
Result primary_ctx_retain(Context* context, Device device) {
  const int error = enter("cuDevicePrimaryCtxRetain", false);
  if (error == kSuccess) *context = machine().contexts[static_cast<std::size_t>(device)].get();
  return error;
}
Result primary_ctx_release(Device) {
  return enter("cuDevicePrimaryCtxRelease", false);
}
Result ctx_push_current(Context context) {
  const int error = enter("cuCtxPushCurrent", false);
  if (error == kSuccess) current_contexts.push_back(context);
  return error;
}
Result ctx_pop_current(Context* context) {
  const int error = enter("cuCtxPopCurrent", false);
  if (current_contexts.empty()) return kInvalidContext;
  *context = current_contexts.back();
  current_contexts.pop_back();
  return error;
}
Result ctx_get_current(Context* context) {
  *context = current_contexts.empty() ? nullptr : current_contexts.back();
  return enter("cuCtxGetCurrent", false);
}
Result ctx_get_device(Device* device) {
  const int error = enter("cuCtxGetDevice");
  *device = current_device();
  return error;
}
Result ctx_enable_peer_access(Context, unsigned) {
  return enter("cuCtxEnablePeerAccess");
}
Result pointer_get_attributes(unsigned count, int* attributes, void** data, DevicePtr pointer) {
  const int error = enter("cuPointerGetAttributes", false);
  if (error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  std::uintptr_t start = 0;
  const Range* range = pointer == 0 ? nullptr : find_locked(m, static_cast<std::uintptr_t>(pointer), 1, &start);
  for (unsigned i = 0; i < count; ++i) {
    const auto set = [&](auto value) { std::memcpy(data[i], &value, sizeof(value)); };
    switch (attributes[i]) {
      case kPointerMemoryType:
        set(range == nullptr ? 0U : range->kind == Kind::device ? unsigned{kMemoryDevice} : unsigned{kMemoryHost});
        break;
      case kPointerDeviceOrdinal: set(range == nullptr ? -2 : range->device); break;
      case kPointerIsManaged: set(0U); break;
      case kPointerContext:
        set(range == nullptr ? static_cast<void*>(nullptr) : m.contexts[static_cast<std::size_t>(range->device)].get());
        break;
      case kPointerRangeStart:  // left as it was for memory the driver does not know
        if (range != nullptr) set(static_cast<DevicePtr>(start));
        break;
      case kPointerRangeSize:
        if (range != nullptr) set(range->size);
        break;
      case kPointerMempool: set(static_cast<void*>(nullptr)); break;
      default: return kInvalidValue;
    }
  }
  return kSuccess;
}
Result mem_get_info(std::size_t* free, std::size_t* total) {
  const int error = enter("cuMemGetInfo");
  if (error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  *total = m.options.memory;
  *free = m.options.memory - m.used[static_cast<std::size_t>(current_device())];
  return kSuccess;
}
Result mem_alloc(DevicePtr* pointer, std::size_t bytes) {
  const int error = enter("cuMemAlloc");
  return error != kSuccess ? error : allocate(pointer, bytes, current_device(), false);
}
Result mem_free(DevicePtr pointer) {
  const int error = enter("cuMemFree");
  if (error != kSuccess) return error;
  // The real one waits for the device.
  Machine& m = machine();
  const std::lock_guard<std::mutex> none_goes(m.destroying);
  std::vector<CUstream_st*> all;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    all.assign(m.streams.begin(), m.streams.end());
  }
  for (CUstream_st* stream : all) drain(stream);
  return release(pointer);
}
Result mem_pool_create(MemPool* pool, const MemPoolProps* props) {
  const int error = enter("cuMemPoolCreate", false);
  if (error != kSuccess) return error;
  *pool = new CUmemPoolHandle_st{props->location.id};
  const std::lock_guard<std::mutex> lock(machine().mutex);
  ++machine().pools;
  return kSuccess;
}
Result mem_pool_destroy(MemPool pool) {
  const int error = enter("cuMemPoolDestroy", false);
  delete pool;
  const std::lock_guard<std::mutex> lock(machine().mutex);
  --machine().pools;
  return error;
}
Result mem_pool_set_attribute(MemPool, int, void*) {
  return enter("cuMemPoolSetAttribute", false);
}
Result mem_pool_get_access(int* flags, MemPool, MemLocation*) {
  *flags = 3;
  return enter("cuMemPoolGetAccess", false);
}
Result mem_alloc_from_pool_async(DevicePtr* pointer, std::size_t bytes, MemPool pool, Stream) {
  const int error = enter("cuMemAllocFromPoolAsync");
  return error != kSuccess ? error : allocate(pointer, bytes, pool->device, true);
}
Result mem_free_async(DevicePtr pointer, Stream handle) {
  const int error = enter("cuMemFreeAsync");
  if (error != kSuccess) return error;
  push(resolve(handle), [pointer] { release(pointer); });
  return kSuccess;
}
int pin(std::size_t bytes) {
  Machine& m = machine();
  if (bytes > m.options.pinned_limit - std::min(m.pinned_bytes, m.options.pinned_limit)) return kOutOfMemory;
  m.pinned_bytes += bytes;
  return kSuccess;
}
Result mem_host_alloc(void** pointer, std::size_t bytes, unsigned) {
  const int error = enter("cuMemHostAlloc");
  if (error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (const int full = pin(bytes)) return full;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  m.ranges[reinterpret_cast<std::uintptr_t>(*pointer)] = {bytes, Kind::pinned, current_device()};
  return kSuccess;
}
int unpin(void* pointer, Kind kind) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const auto it = m.ranges.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (it == m.ranges.end() || it->second.kind != kind) return kInvalidValue;
  m.pinned_bytes -= it->second.size;
  m.ranges.erase(it);
  if (kind == Kind::pinned) std::free(pointer);
  return kSuccess;
}
Result mem_free_host(void* pointer) {
  const int error = enter("cuMemFreeHost");
  return error != kSuccess ? error : unpin(pointer, Kind::pinned);
}
Result mem_host_register(void* pointer, std::size_t bytes, unsigned) {
  const int error = enter("cuMemHostRegister");
  if (error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (find_locked(m, reinterpret_cast<std::uintptr_t>(pointer), 1) != nullptr) return kHostMemoryAlreadyRegistered;
  if (const int full = pin(bytes)) return full;
  m.ranges[reinterpret_cast<std::uintptr_t>(pointer)] = {bytes, Kind::registered, current_device()};
  return kSuccess;
}
Result mem_host_unregister(void* pointer) {
  const int error = enter("cuMemHostUnregister");
  return error != kSuccess ? error : unpin(pointer, Kind::registered);
}
std::uintptr_t address_of(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}
Result memcpy_htod_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) {
  const int error = enter("cuMemcpyHtoDAsync");
  return error != kSuccess
             ? error
             : queue_copy(resolve(stream), static_cast<std::uintptr_t>(to), true, address_of(from), false, bytes);
}
Result memcpy_dtoh_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) {
  const int error = enter("cuMemcpyDtoHAsync");
  return error != kSuccess
             ? error
             : queue_copy(resolve(stream), address_of(to), false, static_cast<std::uintptr_t>(from), true, bytes);
}
Result memcpy_dtod_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) {
  const int error = enter("cuMemcpyDtoDAsync");
  return error != kSuccess ? error
                           : queue_copy(resolve(stream), static_cast<std::uintptr_t>(to), true,
                                        static_cast<std::uintptr_t>(from), true, bytes);
}
Result memcpy_peer_async(DevicePtr to, Context, DevicePtr from, Context, std::size_t bytes, Stream stream) {
  const int error = enter("cuMemcpyPeerAsync");
  return error != kSuccess ? error
                           : queue_copy(resolve(stream), static_cast<std::uintptr_t>(to), true,
                                        static_cast<std::uintptr_t>(from), true, bytes);
}
Result memcpy_2d_async(const Memcpy2D* copy, Stream handle) {
  const int error = enter("cuMemcpy2DAsync");
  if (error != kSuccess) return error;
  if (copy->width > copy->src_pitch || copy->width > copy->dst_pitch) return kInvalidValue;
  const bool from_device = copy->src_type == kMemoryDevice;
  const bool to_device = copy->dst_type == kMemoryDevice;
  const std::uintptr_t from =
      (from_device ? static_cast<std::uintptr_t>(copy->src_device) : address_of(copy->src_host)) +
      copy->src_y * copy->src_pitch + copy->src_x;
  const std::uintptr_t to = (to_device ? static_cast<std::uintptr_t>(copy->dst_device) : address_of(copy->dst_host)) +
                            copy->dst_y * copy->dst_pitch + copy->dst_x;
  for (std::size_t row = 0; row < copy->height; ++row) {
    const int failed = queue_copy(resolve(handle), to + row * copy->dst_pitch, to_device, from + row * copy->src_pitch,
                                  from_device, copy->width);
    if (failed != kSuccess) return failed;
  }
  return kSuccess;
}
Result memset_d8_async(DevicePtr pointer, unsigned char value, std::size_t bytes, Stream handle) {
  const int error = enter("cuMemsetD8Async");
  if (error != kSuccess) return error;
  CUstream_st* stream = resolve(handle);
  push(stream, [=] {
    bool good = false;
    {
      const std::lock_guard<std::mutex> lock(machine().mutex);
      good = is_device(machine(), static_cast<std::uintptr_t>(pointer), bytes);
    }
    if (!good) return break_device(stream->device, kIllegalAddress);
    std::memset(reinterpret_cast<void*>(pointer), value, bytes);
  });
  return kSuccess;
}
Result stream_create(Stream* out, unsigned) {
  const int error = enter("cuStreamCreate");
  if (error != kSuccess) return error;
  Machine& m = machine();
  *out = make_stream(current_device()).release();
  const std::lock_guard<std::mutex> lock(m.mutex);
  m.streams.insert(*out);
  return kSuccess;
}
Result stream_destroy(Stream stream) {
  enter("cuStreamDestroy", false);
  Machine& m = machine();
  const std::lock_guard<std::mutex> none_goes(m.destroying);
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    if (m.streams.erase(stream) == 0) return kInvalidValue;
  }
  drain(stream);
  end_stream(stream);
  delete stream;
  return kSuccess;
}
Result stream_query(Stream handle) {
  const int error = enter("cuStreamQuery");
  if (error != kSuccess) return error;
  CUstream_st* stream = resolve(handle);
  const std::lock_guard<std::mutex> lock(stream->mutex);
  return stream->queue.empty() && !stream->busy ? kSuccess : kNotReady;
}
Result stream_synchronize(Stream handle) {
  const int error = enter("cuStreamSynchronize");
  if (error != kSuccess) return error;
  CUstream_st* stream = resolve(handle);
  drain(stream);
  return sticky_of(stream->device);
}
Result stream_wait_event(Stream handle, Event event, unsigned) {
  const int error = enter("cuStreamWaitEvent");
  if (error != kSuccess) return error;
  if (event->mark) {
    push(resolve(handle), [mark = event->mark] { mark->wait(); });
  }
  return kSuccess;
}
Result stream_is_capturing(Stream handle, int* status) {
  const int error = enter("cuStreamIsCapturing");
  *status = resolve(handle)->capturing ? 1 : 0;
  return error;
}
Result stream_get_ctx(Stream handle, Context* context) {
  const int error = enter("cuStreamGetCtx", false);
  *context = machine().contexts[static_cast<std::size_t>(resolve(handle)->device)].get();
  return error;
}
Result event_create(Event* event, unsigned) {
  const int error = enter("cuEventCreate");
  if (error != kSuccess) return error;
  *event = new CUevent_st;
  const std::lock_guard<std::mutex> lock(machine().mutex);
  machine().events.insert(*event);
  return kSuccess;
}
Result event_record(Event event, Stream stream) {
  const int error = enter("cuEventRecord");
  if (error != kSuccess) return error;
  event->mark = std::make_shared<Mark>();
  push(resolve(stream), [mark = event->mark] { mark->set(); });
  return kSuccess;
}
Result event_query(Event event) {
  const int error = enter("cuEventQuery");
  if (error != kSuccess) return error;
  return event->mark == nullptr || event->mark->is_set() ? kSuccess : kNotReady;
}
Result event_synchronize(Event event) {
  const int error = enter("cuEventSynchronize");
  if (error != kSuccess) return error;
  if (event->mark) event->mark->wait();
  return sticky_of(current_device());
}
Result event_destroy(Event event) {
  enter("cuEventDestroy", false);
  const std::lock_guard<std::mutex> lock(machine().mutex);
  if (machine().events.erase(event) == 0) return kInvalidValue;
  delete event;
  return kSuccess;
}
Result module_load_data(Module* module, const void*) {
  const int error = enter("cuModuleLoadData");
  if (error != kSuccess) return error;
  if (machine().options.refuse_module) return 209;
  static CUmod_st one;
  *module = &one;
  return kSuccess;
}
Result module_unload(Module) {
  return enter("cuModuleUnload");
}
Result module_get_function(Function* function, Module, const char* name) {
  const int error = enter("cuModuleGetFunction");
  if (error != kSuccess) return error;
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  if (m.kernels.count(name) == 0) return kNotFound;
  std::unique_ptr<CUfunc_st>& entry = m.functions[name];
  if (!entry) entry = std::make_unique<CUfunc_st>(CUfunc_st{name});
  *function = entry.get();
  return kSuccess;
}
Result launch_kernel(Function function, unsigned grid_x, unsigned grid_y, unsigned, unsigned, unsigned, unsigned,
                     unsigned, Stream handle, void** parameters, void**) {
  const int error = enter("cuLaunchKernel");
  if (error != kSuccess) return error;
  Machine& m = machine();
  KernelEntry entry;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    entry = m.kernels[function->name];
  }
  // The real driver copies the arguments before it returns.
  auto copies = std::make_shared<std::vector<std::vector<std::byte>>>();
  for (std::size_t i = 0; i < entry.argument_bytes.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(parameters[i]);
    copies->emplace_back(bytes, bytes + entry.argument_bytes[i]);
  }
  CUstream_st* stream = resolve(handle);
  push(stream, [=] {
    if (sticky_of(stream->device) != 0) return;
    std::vector<void*> arguments;
    for (auto& copy : *copies) arguments.push_back(copy.data());
    entry.run(arguments.data(), grid_x, grid_y);
  });
  return kSuccess;
}

}  // namespace

std::string Alive::text() const {
  return "allocations " + std::to_string(allocations) + " (" + std::to_string(device_bytes) + " bytes), pinned " +
         std::to_string(pinned) + ", registered " + std::to_string(registered) + ", streams " +
         std::to_string(streams) + ", events " + std::to_string(events) + ", pools " + std::to_string(pools);
}

const Driver* table() {
  static const Driver value = [] {
    Driver out;
#define LOADSTONE_FAKE_FILL(member, name, parameters) out.member = member;
    LOADSTONE_CUDA_FUNCTIONS(LOADSTONE_FAKE_FILL)
#undef LOADSTONE_FAKE_FILL
    return out;
  }();
  return &value;
}

void reset(const Options& options) {
  Machine& m = machine();
  hold_streams(false);
  std::vector<CUstream_st*> leaked;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    leaked.assign(m.streams.begin(), m.streams.end());
    m.streams.clear();
  }
  for (CUstream_st* stream : leaked) {
    drain(stream);
    end_stream(stream);
    delete stream;
  }
  for (auto& stream : m.default_streams) {
    drain(stream.get());
    end_stream(stream.get());
  }
  const std::lock_guard<std::mutex> lock(m.mutex);
  for (const auto& [address, range] : m.ranges) {
    if (range.kind != Kind::registered) std::free(reinterpret_cast<void*>(address));
  }
  m.ranges.clear();
  m.default_streams.clear();
  m.contexts.clear();
  m.counts.clear();
  m.failures.clear();
  m.log.clear();
  m.kernels.clear();
  m.functions.clear();
  for (CUevent_st* event : m.events) delete event;
  m.events.clear();
  m.pools = m.copies = 0;
  m.pinned_bytes = 0;
  m.started = false;
  m.options = options;
  start_locked(m);
}

Alive alive() {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  Alive out;
  for (const auto& [address, range] : m.ranges) {
    if (range.kind == Kind::device) {
      ++out.allocations;
      out.device_bytes += static_cast<std::int64_t>(range.size);
    }
    out.pinned += range.kind == Kind::pinned ? 1 : 0;
    out.registered += range.kind == Kind::registered ? 1 : 0;
  }
  out.streams = std::ssize(m.streams);
  out.events = std::ssize(m.events);
  out.pools = m.pools;
  return out;
}

std::vector<Call> calls() {
  const std::lock_guard<std::mutex> lock(machine().mutex);
  return machine().log;
}

std::int64_t count(const std::string& name) {
  const std::lock_guard<std::mutex> lock(machine().mutex);
  const auto it = machine().counts.find(name);
  return it == machine().counts.end() ? 0 : it->second;
}

void fail(const std::string& name, std::int64_t nth, int with) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  m.failures[name][m.counts[name] + nth] = with;
}

void hold_streams(bool held) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.held_mutex);
  m.held.store(held);
  m.held_changed.notify_all();
}

void add_kernel(const std::string& name, std::vector<std::size_t> argument_bytes, Kernel kernel) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  m.kernels[name] = {std::move(argument_bytes), std::move(kernel)};
}

}  // namespace loadstone::fake_cuda

// ---- as libcuda.so.1 ----

/// For tests in Python: how often a function was called.
extern "C" __attribute__((visibility("default"))) std::int64_t loadstone_fake_cuda_count(const char* name) {
  return fake_cuda::count(name);
}

extern "C" __attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* symbol, void** function, int,
                                                                          std::uint64_t, int*) {
  const Driver* const table = fake_cuda::table();
#define LOADSTONE_FAKE_NAME(member, name, parameters)   \
  if (std::strcmp(symbol, name) == 0) {                 \
    *function = reinterpret_cast<void*>(table->member); \
    return kSuccess;                                    \
  }
  LOADSTONE_CUDA_FUNCTIONS(LOADSTONE_FAKE_NAME)
#undef LOADSTONE_FAKE_NAME
  *function = nullptr;
  return kNotFound;
}
