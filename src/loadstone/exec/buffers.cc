#include "loadstone/base/cat.h"
#include "loadstone/base/error.h"
#include "loadstone/exec/executor.h"

namespace loadstone {

namespace {

class HostBuffers final : public BufferProvider {
 public:
  View buffer(const Plan& plan, std::int32_t slot) override {
    const Slot& wanted = plan.slots[static_cast<std::size_t>(slot)];
    const PlannedArray& array = plan.arrays[static_cast<std::size_t>(wanted.array)];
    const Device& device = wanted.shard.device;
    if (device.place.kind != PlaceKind::host) {
      throw Error(ErrorKind::system,
                  cat(to_string(device), ": expected a buffer on ", to_string(device.place), ", found host memory"));
    }
    return View::allocate(wanted.shard.box.shape(), array.dtype, device.place);
  }
};

}  // namespace

std::unique_ptr<BufferProvider> host_buffers() {
  return std::make_unique<HostBuffers>();
}

}  // namespace loadstone
