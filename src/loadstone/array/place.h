#pragma once

#include <cstdint>
#include <string>

namespace loadstone {

/// Kinds of memory in DLPack's (and Arrow's) numbering. Other values are kept as opaque numbers.
enum class PlaceKind : std::int32_t { host = 1, cuda = 2, pinned = 3, rocm = 10, rocm_host = 11, managed = 13 };

/// Where memory lives. Layout-equal to DLDevice. `cpu:3` is {host, 3}: host "devices" are separate buffers, so that a
/// placement can be tested without a GPU; exports say (1, 0).
struct Place {
  PlaceKind kind = PlaceKind::host;
  std::int32_t ordinal = 0;

  friend bool operator==(const Place&, const Place&) = default;
  bool host_accessible() const {
    return kind == PlaceKind::host || kind == PlaceKind::pinned || kind == PlaceKind::rocm_host ||
           kind == PlaceKind::managed;
  }
};
static_assert(sizeof(Place) == 8);

/// "cpu:0", "cuda:1", "pinned:0"; "kind 15:0" for kinds without a name.
std::string to_string(Place place);

}  // namespace loadstone
