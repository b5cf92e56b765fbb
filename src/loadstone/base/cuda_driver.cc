#include "loadstone/base/cuda_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <mutex>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"

namespace loadstone::cuda {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kVersion = 12000;  // of the prototypes

using GetProcAddress = Result (*)(const char* symbol, void** function, int version, std::uint64_t flags, int* status);

/// The machine's own driver, once opened. The library stays open: other threads may be inside it at exit.
struct Opened {
  Driver table;
  std::string problem;

  Opened() { problem = open(); }

  std::string open() {
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return cat("there is no NVIDIA driver: ", dlerror());
    // Names without a version answer with the signatures of some version or other; this function says of which.
    const auto get = reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress_v2"));
    if (get == nullptr) return cat(kLibrary, " is older than CUDA 12 (it has no cuGetProcAddress_v2)");
    const char* missing = nullptr;
    const auto find = [&](const char* name, auto& member) {
      void* function = nullptr;
      if (get(name, &function, kVersion, 0, nullptr) != kSuccess || function == nullptr) {
        if (missing == nullptr) missing = name;
        return;
      }
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(function);
    };
#define LOADSTONE_CUDA_FIND(member, name, parameters) find(name, table.member);
    LOADSTONE_CUDA_FUNCTIONS(LOADSTONE_CUDA_FIND)
#undef LOADSTONE_CUDA_FIND
    if (missing != nullptr) return cat(kLibrary, " has no ", missing, " of CUDA 12");
    return start(table);
  }

  static std::string start(const Driver& table) {
    const Result started = table.init(0);
    if (started == kStubLibrary) return "libcuda.so.1 is the toolkit's stub, not a driver";
    if (started == kNoDevice) return "the NVIDIA driver finds no GPU";
    if (started != kSuccess) return cat("the NVIDIA driver does not start: error ", started);
    int count = 0;
    if (table.device_get_count(&count) != kSuccess || count == 0) return "the NVIDIA driver finds no GPU";
    return "";
  }
};

std::atomic<const Driver*> replaced{nullptr};
std::atomic<std::uint64_t> generation{0};

const Opened& opened() {
  static const Opened* const value = new Opened;
  return *value;
}

}  // namespace

const Driver* driver() {
  if (const Driver* table = replaced.load()) return table;
  return opened().problem.empty() ? &opened().table : nullptr;
}

std::string driver_problem() {
  return replaced.load() != nullptr ? "" : opened().problem;
}

void use_driver_for_tests(const Driver* table) {
  replaced.store(table);
  ++generation;
  forget_devices_for_tests();
}

std::uint64_t driver_generation() {
  return generation.load();
}

std::string result_text(Result result) {
  const Driver* table = driver();
  const char* name = nullptr;
  const char* text = nullptr;
  if (table != nullptr) {
    table->get_error_name(result, &name);
    table->get_error_string(result, &text);
  }
  return cat(name == nullptr ? "CUDA error" : name, " (", result, ")", text == nullptr ? "" : ": ",
             text == nullptr ? "" : text);
}

void check(Result result, const std::string& what) {
  if (result == kSuccess) return;
  throw Error(ErrorKind::system, cat("cannot ", what, ": ", result_text(result)));
}

}  // namespace loadstone::cuda
