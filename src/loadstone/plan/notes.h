#pragma once

#include <string>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

/// Inside plan/: what a person should know of a plan.
namespace loadstone::planning {

/// Loading P7 and P8: whether every tile is one whole file.
struct FastPath {
  bool taken = false;
  std::string reason;
};
FastPath fast_path(const ArrayEntry& entry, const Sharding& sharding);

/// Appends to plan.notes: idle devices, uneven tiles, replication and load groups, bytes read beyond those needed.
/// Looks at whole meshes only up to 4096 devices and 65,536 shards in all; beyond that at the local devices.
void add_notes(const Catalog& catalog, Plan& plan);

}  // namespace loadstone::planning
