// Calls on an NVIDIA GPU: cuBLASLt for matrix products of floating types. All else is torch's own kernels.
#pragma once
#include "lowering/fusion/library_calls.h"
#include "lowering/libraries/cuda/cublaslt.h"

namespace lazuli::lowering {

// Lives for the whole process; equal settings give the same object.
const Libraries& cuda_libraries(const GpuMatmulSettings& settings);

}  // namespace lazuli::lowering
