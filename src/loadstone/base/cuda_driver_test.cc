#include "loadstone/base/cuda_driver.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "tests/fakes/cuda_driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

namespace loadstone::cuda {
namespace {

#if __has_include(<cuda.h>)
static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(MemPoolProps) == sizeof(CUmemPoolProps));
static_assert(offsetof(MemPoolProps, location) == offsetof(CUmemPoolProps, location));
static_assert(sizeof(Memcpy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Memcpy2D, dst_device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Memcpy2D, width) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(sizeof(DevicePtr) == sizeof(CUdeviceptr));
static_assert(static_cast<int>(kMultiprocessorCount) == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(static_cast<int>(kPciDomainId) == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
static_assert(static_cast<int>(kComputeCapabilityMajor) == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(static_cast<int>(kMemoryPoolsSupported) == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(static_cast<int>(kPointerMemoryType) == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(static_cast<int>(kPointerIsManaged) == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(static_cast<int>(kPointerDeviceOrdinal) == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(static_cast<int>(kPointerRangeStart) == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(static_cast<int>(kPointerRangeSize) == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(static_cast<int>(kPointerMempool) == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
static_assert(static_cast<int>(kMemoryDevice) == CU_MEMORYTYPE_DEVICE);
static_assert(static_cast<int>(kPoolReleaseThreshold) == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
static_assert(kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(kHostMemoryAlreadyRegistered == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
#endif

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    fake_cuda::reset({.devices = 2, .memory = 1 << 20});
    use_driver_for_tests(fake_cuda::table());
  }
  void TearDown() override { use_driver_for_tests(nullptr); }
};

TEST_F(FakeDriver, DevicesAreNamed) {
  ASSERT_EQ(device_count(), 2);
  EXPECT_EQ(device_info(1).name, "Fake GPU");
  EXPECT_EQ(device_info(1).uuid, "GPU-10111213-1415-1617-1819-1a1b1c1d1e01");
  EXPECT_EQ(device_info(1).pci_bus_id, "0000:02:00.0");
  try {
    device_info(2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::system);
    EXPECT_EQ(error.message(), "cuda:2 cannot be used: there are 2 GPUs");
  }
}

// covers: memory_view B13
TEST_F(FakeDriver, AScopeGivesTheCallersContextBack) {
  const Driver& table = *driver();
  Context mine = primary_context(1);
  table.ctx_push_current(mine);
  {
    const Scope scope(0);
    Device device = -1;
    EXPECT_EQ(table.ctx_get_device(&device), kSuccess);
    EXPECT_EQ(device, 0);
  }
  Context now = nullptr;
  table.ctx_get_current(&now);
  EXPECT_EQ(now, mine);
  table.ctx_pop_current(&now);
}

TEST_F(FakeDriver, StreamsRunOutOfOrderUnlessAnEventSaysSo) {
  const Driver& table = *driver();
  const Scope scope(0);
  OwnedStream first(0);
  OwnedStream second(0);
  OwnedEvent event(0);
  DevicePtr memory = 0;
  check(table.mem_alloc(&memory, 4096), "allocate");
  std::vector<unsigned char> out(4096);
  fake_cuda::hold_streams(true);
  table.memset_d8_async(memory, 7, 4096, first.get());
  table.event_record(event.get(), first.get());
  EXPECT_EQ(table.event_query(event.get()), kNotReady);
  table.stream_wait_event(second.get(), event.get(), 0);
  table.memset_d8_async(memory, 9, 4096, second.get());
  fake_cuda::hold_streams(false);
  second.synchronize();
  void* pinned = nullptr;
  check(table.mem_host_alloc(&pinned, 4096, 0), "pin");
  table.memcpy_dtoh_async(pinned, memory, 4096, second.get());
  second.synchronize();
  std::memcpy(out.data(), pinned, 4096);
  EXPECT_EQ(out, std::vector<unsigned char>(4096, 9));
  table.mem_free_host(pinned);
  table.mem_free(memory);
}

TEST_F(FakeDriver, ACopyOutsideAnAllocationBreaksTheDevice) {
  const Driver& table = *driver();
  {
    const Scope scope(0);
    OwnedStream stream(0);
    DevicePtr memory = 0;
    check(table.mem_alloc(&memory, 100), "allocate");
    std::array<char, 200> host{};
    table.memcpy_htod_async(memory, host.data(), 101, stream.get());
    EXPECT_THROW(stream.synchronize(), Error);
    EXPECT_EQ(table.mem_free(memory), kIllegalAddress);
  }
  const Scope other(1);
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(table.mem_get_info(&free, &total), kSuccess);
}

TEST_F(FakeDriver, MemoryIsCountedAndFailuresAreToldByName) {
  const Driver& table = *driver();
  {
    const Scope scope(0);
    DevicePtr memory = 0;
    EXPECT_EQ(table.mem_alloc(&memory, 2 << 20), kOutOfMemory);
    EXPECT_EQ(table.mem_alloc(&memory, 1 << 19), kSuccess);
    EXPECT_EQ(memory_info(0).free, std::size_t{1} << 19);
    EXPECT_EQ(fake_cuda::alive().allocations, 1);
    table.mem_free(memory);
  }
  release_idle();
  EXPECT_TRUE(fake_cuda::alive().none()) << fake_cuda::alive().text();
  fake_cuda::fail("cuStreamCreate", 1, 999);
  try {
    const OwnedStream stream(0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot make a stream on cuda:0: CUDA_ERROR_UNKNOWN (999): as told by the fake driver");
  }
}

// covers: memory_view B13
TEST_F(FakeDriver, AnswersForPointersAsTheRealOneDoes) {
  const Driver& table = *driver();
  const Scope scope(1);
  DevicePtr memory = 0;
  check(table.mem_alloc(&memory, 1000), "allocate");
  const auto ask = [&](DevicePtr pointer) {
    unsigned type = 77;
    int ordinal = 77;
    DevicePtr start = 77;
    std::size_t size = 77;
    std::array<int, 4> tags{kPointerMemoryType, kPointerDeviceOrdinal, kPointerRangeStart, kPointerRangeSize};
    std::array<void*, 4> data{&type, &ordinal, &start, &size};
    EXPECT_EQ(table.pointer_get_attributes(4, tags.data(), data.data(), pointer), kSuccess);
    return cat(type, " ", ordinal, " ", start == memory ? "start" : cat(start), " ", size);
  };
  EXPECT_EQ(ask(memory + 999), "2 1 start 1000");
  int on_stack = 0;
  EXPECT_EQ(ask(reinterpret_cast<DevicePtr>(&on_stack)), "0 -2 77 77");
  EXPECT_EQ(ask(0), "0 -2 77 77");
  table.mem_free(memory);
}

TEST(CudaDriver, SaysWhyThereIsNone) {
  if (driver() == nullptr) {
    EXPECT_FALSE(driver_problem().empty());
    EXPECT_EQ(device_count(), 0);
    try {
      device_info(0);
      FAIL();
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(driver_problem()), std::string::npos) << error.message();
    }
  } else {
    EXPECT_GT(device_count(), 0);
  }
}

}  // namespace
}  // namespace loadstone::cuda
