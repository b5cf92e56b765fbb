#include "loadstone/array/place.h"

#include "loadstone/base/cat.h"

namespace loadstone {

std::string to_string(Place place) {
  switch (place.kind) {
    case PlaceKind::host: return cat("cpu:", place.ordinal);
    case PlaceKind::cuda: return cat("cuda:", place.ordinal);
    case PlaceKind::pinned: return cat("pinned:", place.ordinal);
    case PlaceKind::rocm: return cat("rocm:", place.ordinal);
    case PlaceKind::rocm_host: return cat("rocm_host:", place.ordinal);
    case PlaceKind::managed: return cat("managed:", place.ordinal);
  }
  return cat("kind ", static_cast<std::int32_t>(place.kind), ":", place.ordinal);
}

}  // namespace loadstone
