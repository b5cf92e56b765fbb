// All device code of the library, compiled into one fatbin (cmake/LoadstoneKernels.cmake).
#include "loadstone/cuda/pd61.cuh"
#include "loadstone/cuda/scatter.cuh"
