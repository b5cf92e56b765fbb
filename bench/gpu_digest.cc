// PD61 on a GPU: bytes a second, one lane and two, over the kinds of tiles there are. One JSON line a row.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/device_digest.h"

namespace {

using namespace loadstone;

struct Row {
  const char* name;
  Shape shape;
  DType dtype;
  Box box;
  Dims strides;
};

double median_seconds(const Pd61& rule, const DeviceTile& tile) {
  std::vector<double> times;
  for (int i = 0; i < 8; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!pd61_on_devices(rule, {&tile, 1})[0]) return 0;
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  times.erase(times.begin());  // the first loads the module
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

int run() {
  if (cuda::driver() == nullptr) {
    std::printf("skipped: %s\n", cuda::driver_problem().c_str());
    return 0;
  }
  constexpr std::int64_t kBytes = std::int64_t{8} << 30;
  const cuda::Driver& driver = *cuda::driver();
  const cuda::Scope scope(0);
  cuda::DevicePtr memory = 0;
  cuda::DevicePtr other = 0;
  cuda::check(driver.mem_alloc(&memory, kBytes), "allocate 8 GiB");
  cuda::check(driver.mem_alloc(&other, kBytes), "allocate 8 GiB");
  const cuda::OwnedStream stream(0);
  cuda::check(driver.memset_d8_async(memory, 0x5A, kBytes, stream.get()), "fill");
  stream.synchronize();
  std::vector<double> copies;
  for (int i = 0; i < 8; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    cuda::check(driver.memcpy_dtod_async(other, memory, kBytes, stream.get()), "copy");
    stream.synchronize();
    copies.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(copies.begin(), copies.end());
  std::printf("{\"row\": \"device copy, bytes read and written\", \"tb_per_s\": %.3f}\n",
              2 * kBytes / copies[3] / 1e12);

  constexpr std::int64_t kRows = kBytes / 16384;
  const std::vector<Row> rows = {
      {"rows of 16 KiB", {kRows, 4096}, dtypes::kFloat32, Box::whole({kRows, 4096}), {16384, 4}},
      {"one row", {kBytes / 4}, dtypes::kFloat32, Box::whole({kBytes / 4}), {4}},
      {"columns, runs of 2 KiB, contiguous",
       {kRows * 8, 4096},
       dtypes::kFloat32,
       {{0, 512}, {kRows * 8, 1024}},
       {2048, 4}},
      {"columns, runs of 64 B, contiguous",
       {kRows * 256, 4096},
       dtypes::kFloat32,
       {{0, 16}, {kRows * 256, 32}},
       {64, 4}},
      {"half of each 16 KiB row, strided", {kRows, 4096}, dtypes::kFloat32, {{0, 2048}, {kRows, 4096}}, {16384, 4}},
      {"short rows of 64 B (16 float32)", {kBytes / 64, 16}, dtypes::kFloat32, Box::whole({kBytes / 64, 16}), {64, 4}},
      {"columns of short rows, runs of 32 B",
       {kBytes / 32, 16},
       dtypes::kFloat32,
       {{0, 8}, {kBytes / 32, 16}},
       {32, 4}},
      {"rows of 12301 B, not aligned",
       {kBytes / 12301, 12301},
       dtypes::kUInt8,
       Box::whole({kBytes / 12301, 12301}),
       {12301, 1}},
  };
  for (const Row& row : rows) {
    for (const int lanes : {1, 2}) {
      const Pd61 rule(row.shape, row.dtype, {}, lanes);
      const DeviceTile tile{row.box, reinterpret_cast<const std::byte*>(memory), row.strides, 0};
      const double seconds = median_seconds(rule, tile);
      const auto bytes = static_cast<double>(row.dtype.nbytes(row.box.num_elems()));
      std::printf("{\"row\": \"%s\", \"lanes\": %d, \"bytes\": %.0f, \"tb_per_s\": %.3f}\n", row.name, lanes, bytes,
                  seconds == 0 ? 0 : bytes / seconds / 1e12);
    }
  }
  driver.mem_free(memory);
  driver.mem_free(other);
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const loadstone::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 4;
  }
}
