#pragma once

#include "loadstone/exec/scatter_job.h"
#include "loadstone/verify/pd61_job.h"

namespace loadstone {

/// What the kernels of src/loadstone/cuda do, byte by byte on host memory.
void pd61_twin(const Pd61Job& job, int lanes, unsigned blocks, unsigned long long* out);
void scatter_twin(const ScatterJob& job);

}  // namespace loadstone
