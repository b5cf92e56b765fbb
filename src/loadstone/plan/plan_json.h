#pragma once

#include <string>

#include "loadstone/format/catalog.h"
#include "loadstone/plan/plan.h"

namespace loadstone {

/// The plan as one JSON object, as `loadstone plan --json` embeds it under "plan": strategy, process, options, arrays,
/// slots (array, device, place, process, replica_id, box as [[begin, end], …], bytes), reads (the first 1000; their
/// number is num_reads), totals (integers), considered, notes, fingerprint.
std::string to_json(const Catalog& catalog, const Plan& plan);

}  // namespace loadstone
