// Calls on an NVIDIA GPU: cuBLASLt for matrix products of floating types. All else is torch's own kernels.
#pragma once
#include "lowering/libraries/cublaslt.h"
#include "lowering/library_calls.h"

namespace lazuli::lowering {

// Lives for the whole process; equal settings give the same object.
const Libraries& cuda_libraries(const GpuMatmulSettings& settings);

}  // namespace lazuli::lowering
