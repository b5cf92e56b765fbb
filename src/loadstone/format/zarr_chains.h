#pragma once

#include <vector>

#include "loadstone/format/zarr_metadata.h"

namespace loadstone::zarr {

// The codecs that metadata names. Error{data} without a file name for one that is not supported, naming it.

/// Filters and compressor of version 2, added to the chain.
void take_steps_v2(Metadata& out, const Json& json);
/// The member 'codecs' of version 3: chain or sharding. Type, shape and chunk are set before.
void take_codecs_v3(Metadata& out, const Json& json);

/// The dimensions from the slowest: 0, 1, … or the other way round.
std::vector<int> in_order(int ndim, bool fortran);

}  // namespace loadstone::zarr
