#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

/// The CUDA driver, opened at run time: no toolkit is needed to build, none is linked. Types and numbers are those of
/// cuda.h 12.0 (base/cuda_driver_test.cc compares them with the header where there is one).
namespace loadstone::cuda {

using Result = int;  ///< CUresult; 0 is success
using Device = int;
using DevicePtr = unsigned long long;
using Context = struct CUctx_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using MemPool = struct CUmemPoolHandle_st*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kInvalidValue = 1;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kNotInitialized = 3;
inline constexpr Result kStubLibrary = 34;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kInvalidContext = 201;
inline constexpr Result kNotFound = 500;
inline constexpr Result kNotReady = 600;
inline constexpr Result kIllegalAddress = 700;
inline constexpr Result kHostMemoryAlreadyRegistered = 712;
inline constexpr Result kNotSupported = 801;
inline constexpr Result kUnknown = 999;

/// CU_DEVICE_ATTRIBUTE_*
enum DeviceAttribute : int {
  kMultiprocessorCount = 16,
  kPciBusId = 33,
  kPciDeviceId = 34,
  kPciDomainId = 50,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kMemoryPoolsSupported = 115,
  kHostNumaId = 134
};
/// CU_POINTER_ATTRIBUTE_*
enum PointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
  kPointerMempool = 17
};
/// CU_MEMORYTYPE_*
enum MemoryType : unsigned {
  kMemoryUnknown = 0,
  kMemoryHost = 1,
  kMemoryDevice = 2,
  kMemoryArray = 3,
  kMemoryUnified = 4
};

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kPoolReleaseThreshold = 4;

struct Uuid {
  unsigned char bytes[16];
};
struct MemLocation {
  int type;  ///< 1 = device
  int id;
};
struct MemPoolProps {
  int alloc_type;  ///< 1 = pinned
  int handle_types;
  MemLocation location;
  void* win32_security_attributes;
  std::size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
struct Memcpy2D {
  std::size_t src_x, src_y;
  unsigned src_type;
  const void* src_host;
  DevicePtr src_device;
  void* src_array;
  std::size_t src_pitch;
  std::size_t dst_x, dst_y;
  unsigned dst_type;
  void* dst_host;
  DevicePtr dst_device;
  void* dst_array;
  std::size_t dst_pitch;
  std::size_t width, height;
};

/// The functions used, by the driver's names. One list fills the table, the fake and the comparison with cuda.h:
/// X(member, "cuName", parameters).
#define LOADSTONE_CUDA_FUNCTIONS(X)                                                                        \
  X(init, "cuInit", (unsigned))                                                                            \
  X(driver_get_version, "cuDriverGetVersion", (int*))                                                      \
  X(get_error_name, "cuGetErrorName", (Result, const char**))                                              \
  X(get_error_string, "cuGetErrorString", (Result, const char**))                                          \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                          \
  X(device_get, "cuDeviceGet", (Device*, int))                                                             \
  X(device_get_name, "cuDeviceGetName", (char*, int, Device))                                              \
  X(device_get_uuid, "cuDeviceGetUuid", (Uuid*, Device))                                                   \
  X(device_get_attribute, "cuDeviceGetAttribute", (int*, int, Device))                                     \
  X(device_get_pci_bus_id, "cuDeviceGetPCIBusId", (char*, int, Device))                                    \
  X(device_can_access_peer, "cuDeviceCanAccessPeer", (int*, Device, Device))                               \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (Context*, Device))                                    \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease", (Device))                                            \
  X(ctx_push_current, "cuCtxPushCurrent", (Context))                                                       \
  X(ctx_pop_current, "cuCtxPopCurrent", (Context*))                                                        \
  X(ctx_get_current, "cuCtxGetCurrent", (Context*))                                                        \
  X(ctx_get_device, "cuCtxGetDevice", (Device*))                                                           \
  X(ctx_enable_peer_access, "cuCtxEnablePeerAccess", (Context, unsigned))                                  \
  X(pointer_get_attributes, "cuPointerGetAttributes", (unsigned, int*, void**, DevicePtr))                 \
  X(mem_get_info, "cuMemGetInfo", (std::size_t*, std::size_t*))                                            \
  X(mem_alloc, "cuMemAlloc", (DevicePtr*, std::size_t))                                                    \
  X(mem_free, "cuMemFree", (DevicePtr))                                                                    \
  X(mem_pool_create, "cuMemPoolCreate", (MemPool*, const MemPoolProps*))                                   \
  X(mem_pool_destroy, "cuMemPoolDestroy", (MemPool))                                                       \
  X(mem_pool_set_attribute, "cuMemPoolSetAttribute", (MemPool, int, void*))                                \
  X(mem_pool_get_access, "cuMemPoolGetAccess", (int*, MemPool, MemLocation*))                              \
  X(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync", (DevicePtr*, std::size_t, MemPool, Stream))      \
  X(mem_free_async, "cuMemFreeAsync", (DevicePtr, Stream))                                                 \
  X(mem_host_alloc, "cuMemHostAlloc", (void**, std::size_t, unsigned))                                     \
  X(mem_free_host, "cuMemFreeHost", (void*))                                                               \
  X(mem_host_register, "cuMemHostRegister", (void*, std::size_t, unsigned))                                \
  X(mem_host_unregister, "cuMemHostUnregister", (void*))                                                   \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync", (DevicePtr, const void*, std::size_t, Stream))                 \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync", (void*, DevicePtr, std::size_t, Stream))                       \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync", (DevicePtr, DevicePtr, std::size_t, Stream))                   \
  X(memcpy_peer_async, "cuMemcpyPeerAsync", (DevicePtr, Context, DevicePtr, Context, std::size_t, Stream)) \
  X(memcpy_2d_async, "cuMemcpy2DAsync", (const Memcpy2D*, Stream))                                         \
  X(memset_d8_async, "cuMemsetD8Async", (DevicePtr, unsigned char, std::size_t, Stream))                   \
  X(stream_create, "cuStreamCreate", (Stream*, unsigned))                                                  \
  X(stream_destroy, "cuStreamDestroy", (Stream))                                                           \
  X(stream_query, "cuStreamQuery", (Stream))                                                               \
  X(stream_synchronize, "cuStreamSynchronize", (Stream))                                                   \
  X(stream_wait_event, "cuStreamWaitEvent", (Stream, Event, unsigned))                                     \
  X(stream_is_capturing, "cuStreamIsCapturing", (Stream, int*))                                            \
  X(stream_get_ctx, "cuStreamGetCtx", (Stream, Context*))                                                  \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                                     \
  X(event_record, "cuEventRecord", (Event, Stream))                                                        \
  X(event_query, "cuEventQuery", (Event))                                                                  \
  X(event_synchronize, "cuEventSynchronize", (Event))                                                      \
  X(event_destroy, "cuEventDestroy", (Event))                                                              \
  X(module_load_data, "cuModuleLoadData", (Module*, const void*))                                          \
  X(module_unload, "cuModuleUnload", (Module))                                                             \
  X(module_get_function, "cuModuleGetFunction", (Function*, Module, const char*))                          \
  X(launch_kernel, "cuLaunchKernel",                                                                       \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**))

/// The table. Every member is filled, or there is no table.
struct Driver {
#define LOADSTONE_CUDA_MEMBER(member, name, parameters) Result(*member) parameters = nullptr;
  LOADSTONE_CUDA_FUNCTIONS(LOADSTONE_CUDA_MEMBER)
#undef LOADSTONE_CUDA_MEMBER
};

/// The driver of this machine, opened and initialised on first use; nullptr where there is none that works, no GPU, or
/// the toolkit's stub. Never throws. Thread-safe; the table lives as long as the process.
const Driver* driver();
/// "" where driver() is not null, else why it is, for `loadstone doctor` and for errors.
std::string driver_problem();
/// Makes another table the driver (nullptr: the machine's own again) and forgets what was kept of the last one. For
/// tests with one thread.
void use_driver_for_tests(const Driver* table);
/// Grows with every use_driver_for_tests: what was made with an earlier driver must not be used.
std::uint64_t driver_generation();

/// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
std::string result_text(Result result);
/// Nothing for success; else Error{system}: "cannot WHAT: NAME (code): text". `what` may be empty to say less.
void check(Result result, const std::string& what);

}  // namespace loadstone::cuda
