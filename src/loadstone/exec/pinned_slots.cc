#include "loadstone/exec/pinned_slots.h"

#include <algorithm>
#include <iterator>
#include <mutex>

#include "loadstone/base/cuda_context.h"
#include "loadstone/base/error.h"

namespace loadstone {

struct PinnedSlots::State {
  std::mutex mutex;
  std::vector<PinnedSlot> idle;
  std::int64_t locked_bytes = 0;
  std::int64_t idle_limit = std::int64_t{1} << 30;
  int ordinal = 0;               // a GPU whose context serves to unlock
  std::uint64_t generation = 0;  // of the driver that the slots belong to

  std::int64_t idle_bytes() const {
    std::int64_t sum = 0;
    for (const PinnedSlot& slot : idle) sum += slot.bytes;
    return sum;
  }
  void unlock(const PinnedSlot& slot) {
    locked_bytes -= slot.bytes;
    if (cuda::driver_generation() != generation) return;  // a driver of a test that is over
    try {
      const cuda::Scope scope(ordinal);
      cuda::driver()->mem_free_host(slot.data);
    } catch (const Error&) {  // the GPU is lost, and its locked memory with it
    }
  }
};

PinnedSlots::PinnedSlots() : state_(std::make_unique<State>()) {}
PinnedSlots::~PinnedSlots() = default;

PinnedSlots& PinnedSlots::shared() {
  static PinnedSlots* const value = new PinnedSlots;  // outlives every thread; the driver unlocks at exit
  return *value;
}

PinnedSlots::Lease PinnedSlots::take(int ordinal, int count, std::int64_t bytes) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  State& state = *state_;
  if (state.generation != cuda::driver_generation()) {
    state.idle.clear();
    state.locked_bytes = 0;
    state.generation = cuda::driver_generation();
  }
  state.ordinal = ordinal;
  const cuda::Scope scope(ordinal);  // may throw, so before slots leave the idle ones
  std::vector<PinnedSlot> taken;
  for (auto slot = state.idle.begin(); slot != state.idle.end() && std::ssize(taken) < count;) {
    if (slot->bytes < bytes) {
      ++slot;
      continue;
    }
    taken.push_back(*slot);
    slot = state.idle.erase(slot);
  }
  while (std::ssize(taken) < count) {
    void* data = nullptr;
    if (cuda::driver()->mem_host_alloc(&data, static_cast<std::size_t>(bytes), cuda::kHostAllocPortable) !=
        cuda::kSuccess) {
      break;
    }
    state.locked_bytes += bytes;
    taken.push_back({static_cast<std::byte*>(data), bytes});
  }
  return {this, std::move(taken)};
}

void PinnedSlots::give_back(std::vector<PinnedSlot> slots) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (cuda::driver_generation() != state_->generation) return;
  for (PinnedSlot& slot : slots) {
    if (state_->idle_bytes() + slot.bytes > state_->idle_limit) {
      state_->unlock(slot);
    } else {
      state_->idle.push_back(slot);
    }
  }
}

std::int64_t PinnedSlots::release_idle() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  const std::int64_t bytes = state_->idle_bytes();
  for (const PinnedSlot& slot : state_->idle) state_->unlock(slot);
  state_->idle.clear();
  return bytes;
}

std::int64_t PinnedSlots::bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->locked_bytes;
}

void PinnedSlots::set_idle_limit(std::int64_t bytes) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->idle_limit = bytes;
  while (!state_->idle.empty() && state_->idle_bytes() > bytes) {
    state_->unlock(state_->idle.back());
    state_->idle.pop_back();
  }
}

PinnedSlots::Lease::~Lease() {
  if (!slots_.empty()) from_->give_back(std::move(slots_));
}

}  // namespace loadstone
