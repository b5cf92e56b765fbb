#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "loadstone/array/view.h"

namespace loadstone {

enum class PlaceVerdict : std::uint8_t { ok, mismatch, unchecked };

/// "ok", "mismatch", "unchecked"
std::string_view verdict_name(PlaceVerdict verdict);

/// Bytes [begin, begin + bytes) of the address space.
struct AddressRange {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  bool contains(const AddressRange& other) const {
    return other.begin >= begin && other.begin - begin <= bytes && other.bytes <= bytes - (other.begin - begin);
  }
};

/// Where memory is said to lie, and what the CUDA driver says.
struct PlaceReport {
  Place claim;
  /// The driver's kind and ordinal; {host, 0} for an address it does not know. The ordinal of pinned and managed
  /// memory is the device that was current at its allocation. Absent where no driver was asked.
  std::optional<Place> found = std::nullopt;
  /// The allocation (of a caching allocator: its segment; of mapped virtual memory: the reservation). Absent where the
  /// driver does not tell.
  std::optional<AddressRange> range = std::nullopt;
  AddressRange extent = {};  ///< the bytes that the view reaches
  PlaceVerdict verdict = PlaceVerdict::unchecked;
  std::string reason = "";  ///< "" for ok
};

/// What an import says of memory whose protocol names no device.
inline constexpr Place kUnclaimedCuda{PlaceKind::cuda, -1};

/// Asks the driver where the bytes of `view` lie and whether all of them are in one allocation. Agreement: host with
/// what the driver does not know, pinned and managed memory; pinned with pinned; managed with managed; cuda with
/// managed, or with the memory of that very GPU; kUnclaimedCuda with all that the driver knows. Unchecked: an empty
/// view, no driver, a kind that is not CUDA's, memory of which the driver tells no range. Never throws for what the
/// driver answers, reads no byte of the memory, needs no current context.
PlaceReport check_place(const View& view, Place claim);

}  // namespace loadstone
