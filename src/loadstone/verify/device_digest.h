#pragma once

#include <optional>
#include <span>
#include <vector>

#include "loadstone/verify/pd61.h"

namespace loadstone {

/// A tile in the memory of a GPU: `data` is the address of box.begin there.
struct DeviceTile {
  Box box;
  const std::byte* data = nullptr;
  Dims strides_bytes;
  int ordinal = 0;
};

/// The digests of tiles where they are, in their order: one pass at the speed of the GPU's memory, all GPUs at once.
/// What is queued on other streams is not waited for. A tile has no value where no kernel takes it (no kernels on that
/// GPU, types of less than a byte, more than 8 dimensions before the runs): read it back. Error{system} when a GPU
/// fails.
std::vector<std::optional<Pd61Value>> pd61_on_devices(const Pd61& rule, std::span<const DeviceTile> tiles);

}  // namespace loadstone
