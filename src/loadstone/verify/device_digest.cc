#include "loadstone/verify/device_digest.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "loadstone/base/cat.h"
#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"
#include "loadstone/verify/pd61_job.h"
#include "loadstone/verify/pd61_kernel.h"

namespace loadstone {

namespace {

/// What digests on one GPU need; kept between calls, since making it would take longer than digesting gigabytes.
struct Station {
  std::mutex mutex;
  std::unique_ptr<cuda::OwnedStream> stream;
  unsigned long long* sums = nullptr;  // page-locked: the kernels write there over the link
  std::size_t room = 0;

  /// False where the system locks no more memory.
  bool make_room(int ordinal, std::size_t count) {
    if (!stream) stream = std::make_unique<cuda::OwnedStream>(ordinal);
    if (count <= room) return true;
    const cuda::Driver& driver = *cuda::driver();
    if (sums != nullptr) driver.mem_free_host(sums);
    sums = nullptr;
    room = 0;
    void* memory = nullptr;
    const std::size_t wanted = std::max<std::size_t>(count, 1 << 16);
    if (driver.mem_host_alloc(&memory, wanted * sizeof(*sums), cuda::kHostAllocPortable) != cuda::kSuccess) {
      return false;
    }
    sums = static_cast<unsigned long long*>(memory);
    room = wanted;
    return true;
  }
};

Station& station(int ordinal) {
  static std::mutex mutex;
  // By generation of the driver and GPU. The driver takes all back at exit, when streams can no longer be destroyed.
  static auto* const all = new std::map<std::pair<std::uint64_t, int>, Station*>;
  const std::lock_guard<std::mutex> lock(mutex);
  Station*& entry = (*all)[{cuda::driver_generation(), ordinal}];
  if (entry == nullptr) entry = new Station;
  return *entry;
}

struct Launched {
  std::size_t tile;
  Pd61Launch launch;
  std::size_t first_sum;
};

/// The tiles of one GPU.
class Batch {
 public:
  explicit Batch(int ordinal) : ordinal_(ordinal), station_(station(ordinal)), lock_(station_.mutex) {}

  void add(const Pd61& rule, const DeviceTile& tile, std::size_t index) {
    if (cuda::kernel(ordinal_, "loadstone_pd61_columns_1") == nullptr) return;
    const int multiprocessors = cuda::device_info(ordinal_).multiprocessors;
    const auto launch = make_pd61_launch(rule, tile.box, tile.data, tile.strides_bytes, multiprocessors);
    if (!launch) return;
    launched_.push_back({index, *launch, sums_});
    sums_ += static_cast<std::size_t>(launch->blocks) * static_cast<std::size_t>(launch->lanes);
  }

  void launch() {
    if (launched_.empty()) return;
    const cuda::Scope scope(ordinal_);
    if (!station_.make_room(ordinal_, sums_)) return launched_.clear();  // the host digests these
    for (Launched& one : launched_) {
      unsigned long long* out = station_.sums + one.first_sum;
      void* arguments[] = {&one.launch.job, &out};
      cuda::check(cuda::driver()->launch_kernel(cuda::kernel(ordinal_, one.launch.kernel()), one.launch.blocks, 1, 1,
                                                Pd61Job::kThreads, 1, 1, 0, station_.stream->get(), arguments, nullptr),
                  cat("digest on cuda:", ordinal_));
    }
  }

  void finish(std::vector<std::optional<Pd61Value>>& values) {
    if (launched_.empty()) return;
    station_.stream->synchronize();
    for (const Launched& one : launched_) {
      Pd61Value sum;
      const auto lanes = static_cast<std::size_t>(one.launch.lanes);
      for (std::size_t i = 0; i < one.launch.blocks * lanes; ++i) {
        std::uint64_t& lane = sum.lanes[i % lanes];
        lane = detail::add61(lane, station_.sums[one.first_sum + i]);
      }
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        sum.lanes[lane] = detail::mul61(sum.lanes[lane], one.launch.factor[lane]);
      }
      values[one.tile] = sum;
    }
  }

 private:
  int ordinal_;
  Station& station_;
  std::unique_lock<std::mutex> lock_;
  std::vector<Launched> launched_;
  std::size_t sums_ = 0;
};

}  // namespace

std::vector<std::optional<Pd61Value>> pd61_on_devices(const Pd61& rule, std::span<const DeviceTile> tiles) {
  std::vector<std::optional<Pd61Value>> values(tiles.size());
  std::map<int, std::unique_ptr<Batch>> batches;  // in the order of GPUs, so that two callers never wait for each other
  for (const DeviceTile& tile : tiles) batches[tile.ordinal] = nullptr;
  for (auto& [ordinal, batch] : batches) batch = std::make_unique<Batch>(ordinal);
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    if (tiles[i].box.empty()) {
      values[i] = Pd61Value{};
    } else {
      batches[tiles[i].ordinal]->add(rule, tiles[i], i);
    }
  }
  for (auto& [ordinal, batch] : batches) batch->launch();
  for (auto& [ordinal, batch] : batches) batch->finish(values);
  return values;
}

}  // namespace loadstone
