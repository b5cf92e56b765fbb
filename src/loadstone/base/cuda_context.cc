#include "loadstone/base/cuda_context.h"

#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"

// The bytes of src/loadstone/cuda/kernels.cu as a fatbin; empty in a build without nvcc.
extern "C" const unsigned char loadstone_kernels_begin[];
extern "C" const unsigned char loadstone_kernels_end[];

namespace loadstone::cuda {

namespace {

/// Handles that are not in use. Making them takes the driver longer than using them.
template <typename Handle>
class Idle {
 public:
  bool take(Handle& handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (handles_.empty()) return false;
    handle = handles_.back();
    handles_.pop_back();
    return true;
  }
  void give(Handle handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    handles_.push_back(handle);
  }
  std::vector<Handle> take_all() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(handles_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Handle> handles_;
};

/// What is kept of one GPU as long as the process lives. Giving a primary context back could destroy it, and making
/// one takes a good part of a second.
struct Kept {
  DeviceInfo info;
  Device device = 0;
  std::once_flag retained;
  Context context = nullptr;
  std::once_flag loaded;
  Module module = nullptr;
  std::string kernels_problem;
  std::mutex mutex;
  std::map<std::string, Function> functions;
  Idle<Stream> streams;
  Idle<Event> events;
};

std::mutex devices_mutex;
std::unique_ptr<std::vector<std::unique_ptr<Kept>>> devices;

std::string uuid_text(const Uuid& uuid) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += kDigits[uuid.bytes[i] >> 4];
    out += kDigits[uuid.bytes[i] & 15];
  }
  return out;
}

DeviceInfo describe(const Driver& table, int ordinal, Device device) {
  const std::string gpu = cat("cuda:", ordinal);
  DeviceInfo info;
  info.ordinal = ordinal;
  std::array<char, 256> text{};
  check(table.device_get_name(text.data(), static_cast<int>(text.size()), device), cat("ask ", gpu, " for its name"));
  info.name = text.data();
  Uuid uuid{};
  check(table.device_get_uuid(&uuid, device), cat("ask ", gpu, " for its UUID"));
  info.uuid = uuid_text(uuid);
  if (table.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), device) == kSuccess) {
    info.pci_bus_id = text.data();
  }
  const auto attribute = [&](DeviceAttribute which, int otherwise) {
    int value = 0;
    return table.device_get_attribute(&value, which, device) == kSuccess ? value : otherwise;
  };
  info.compute_major = attribute(kComputeCapabilityMajor, 0);
  info.compute_minor = attribute(kComputeCapabilityMinor, 0);
  info.multiprocessors = attribute(kMultiprocessorCount, 1);
  info.numa_node = attribute(kHostNumaId, -1);
  info.memory_pools = attribute(kMemoryPoolsSupported, 0) != 0;
  return info;
}

std::vector<std::unique_ptr<Kept>>& all_devices() {
  const std::lock_guard<std::mutex> lock(devices_mutex);
  if (!devices) {
    auto found = std::make_unique<std::vector<std::unique_ptr<Kept>>>();
    if (const Driver* table = driver()) {
      int count = 0;
      check(table->device_get_count(&count), "count the GPUs");
      for (int i = 0; i < count; ++i) {
        auto kept = std::make_unique<Kept>();
        check(table->device_get(&kept->device, i), cat("open cuda:", i));
        kept->info = describe(*table, i, kept->device);
        found->push_back(std::move(kept));
      }
    }
    devices = std::move(found);
  }
  return *devices;
}

Kept& kept(int ordinal) {
  std::vector<std::unique_ptr<Kept>>& all = all_devices();
  if (ordinal >= 0 && ordinal < std::ssize(all)) return *all[static_cast<std::size_t>(ordinal)];
  const std::string problem = driver_problem();
  const std::string here = all.size() == 1 ? "there is one GPU, cuda:0" : cat("there are ", all.size(), " GPUs");
  throw Error(ErrorKind::system, cat("cuda:", ordinal, " cannot be used: ", problem.empty() ? here : problem));
}

std::string load_kernels(int ordinal, Kept& device) {
  // The driver of a test knows kernels by their names and needs no code.
  const bool empty = &loadstone_kernels_begin[0] == &loadstone_kernels_end[0];
  if (empty && driver_generation() == 0) return "this build has no GPU kernels (it was made without nvcc)";
  const Scope scope(ordinal);
  const Result result = driver()->module_load_data(&device.module, loadstone_kernels_begin);
  if (result == kSuccess) return "";
  device.module = nullptr;
  return cat("the driver refuses the kernels on ", device.info.name, ": ", result_text(result));
}

void load_once(int ordinal, Kept& device) {
  std::call_once(device.loaded, [&] { device.kernels_problem = load_kernels(ordinal, device); });
}

}  // namespace

int device_count() {
  return static_cast<int>(all_devices().size());
}

const DeviceInfo& device_info(int ordinal) {
  return kept(ordinal).info;
}

Context primary_context(int ordinal) {
  Kept& device = kept(ordinal);
  std::call_once(device.retained, [&] {
    check(driver()->primary_ctx_retain(&device.context, device.device), cat("take the context of cuda:", ordinal));
  });
  return device.context;
}

Scope::Scope(int ordinal) : driver_(nullptr) {
  const Context context = primary_context(ordinal);
  Context current = nullptr;
  if (driver()->ctx_get_current(&current) == kSuccess && current == context) return;  // nothing to restore
  check(driver()->ctx_push_current(context), cat("make the context of cuda:", ordinal, " current"));
  driver_ = driver();
}

Scope::~Scope() {
  if (driver_ == nullptr) return;
  Context popped = nullptr;
  driver_->ctx_pop_current(&popped);
}

OwnedStream::OwnedStream(int ordinal) : ordinal_(ordinal), generation_(driver_generation()) {
  if (kept(ordinal).streams.take(stream_)) return;
  const Scope scope(ordinal);
  check(driver()->stream_create(&stream_, kStreamNonBlocking), cat("make a stream on cuda:", ordinal));
}

OwnedStream::~OwnedStream() {
  try {
    if (generation_ != driver_generation()) return;
    const Scope scope(ordinal_);
    if (driver()->stream_synchronize(stream_) == kSuccess) {
      kept(ordinal_).streams.give(stream_);
    } else {
      driver()->stream_destroy(stream_);
    }
  } catch (const Error&) {  // the GPU is gone, and the stream with it
  }
}

void OwnedStream::synchronize() const {
  const Scope scope(ordinal_);
  check(driver()->stream_synchronize(stream_), cat("finish the work on cuda:", ordinal_));
}

OwnedEvent::OwnedEvent(int ordinal) : ordinal_(ordinal), generation_(driver_generation()) {
  if (kept(ordinal).events.take(event_)) return;
  const Scope scope(ordinal);
  check(driver()->event_create(&event_, kEventDisableTiming), cat("make an event on cuda:", ordinal));
}

OwnedEvent::~OwnedEvent() {
  try {
    if (generation_ == driver_generation()) kept(ordinal_).events.give(event_);
  } catch (const Error&) {
  }
}

void copy_to_host(std::byte* to, const std::byte* from, std::int64_t bytes, int ordinal) {
  if (bytes == 0) return;
  const OwnedStream stream(ordinal);
  const Scope scope(ordinal);
  check(driver()->memcpy_dtoh_async(to, static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(from)),
                                    static_cast<std::size_t>(bytes), stream.get()),
        cat("copy ", bytes, " bytes from cuda:", ordinal));
  stream.synchronize();
}

MemoryInfo memory_info(int ordinal) {
  const Scope scope(ordinal);
  MemoryInfo info;
  check(driver()->mem_get_info(&info.free, &info.total), cat("ask cuda:", ordinal, " for its free memory"));
  return info;
}

Function kernel(int ordinal, const char* name) {
  Kept& device = kept(ordinal);
  load_once(ordinal, device);
  if (device.module == nullptr) return nullptr;
  const std::lock_guard<std::mutex> lock(device.mutex);
  Function& function = device.functions[name];
  if (function == nullptr) {
    const Scope scope(ordinal);
    check(driver()->module_get_function(&function, device.module, name), cat("find the kernel ", name));
  }
  return function;
}

std::string kernels_problem(int ordinal) {
  Kept& device = kept(ordinal);
  load_once(ordinal, device);
  return device.kernels_problem;
}

void release_idle() {
  for (const std::unique_ptr<Kept>& device : all_devices()) {
    const Scope scope(device->info.ordinal);
    for (const Stream stream : device->streams.take_all()) driver()->stream_destroy(stream);
    for (const Event event : device->events.take_all()) driver()->event_destroy(event);
  }
}

void forget_devices_for_tests() {
  const std::lock_guard<std::mutex> lock(devices_mutex);
  devices.reset();
}

}  // namespace loadstone::cuda
