#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace loadstone {

/// A piece of page-locked host memory that GPUs copy from at full speed.
struct PinnedSlot {
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// The page-locked slots of the process: locked once, kept between loads, shared by loads that run at once. Safe from
/// any thread.
class PinnedSlots {
 public:
  static PinnedSlots& shared();

  /// Slots for one load; given back when it goes.
  class Lease {
   public:
    Lease() = default;
    Lease(PinnedSlots* from, std::vector<PinnedSlot> slots) : from_(from), slots_(std::move(slots)) {}
    Lease(Lease&& other) noexcept : from_(other.from_), slots_(std::move(other.slots_)) { other.slots_.clear(); }
    Lease& operator=(Lease&&) = delete;
    ~Lease();
    const std::vector<PinnedSlot>& slots() const { return slots_; }

   private:
    PinnedSlots* from_ = nullptr;
    std::vector<PinnedSlot> slots_;
  };

  /// Up to `count` slots of at least `bytes`; fewer, even none, when the system locks no more memory. The memory is
  /// locked for all GPUs, with the context of `ordinal`.
  Lease take(int ordinal, int count, std::int64_t bytes);
  /// Unlocks what no load is using. Returns the bytes.
  std::int64_t release_idle();
  /// Bytes locked, in use or idle.
  std::int64_t bytes() const;
  /// Idle slots beyond this many bytes are unlocked when they come back. Default 1 GiB.
  void set_idle_limit(std::int64_t bytes);

  PinnedSlots(const PinnedSlots&) = delete;
  PinnedSlots& operator=(const PinnedSlots&) = delete;

 private:
  PinnedSlots();
  ~PinnedSlots();
  void give_back(std::vector<PinnedSlot> slots);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace loadstone
