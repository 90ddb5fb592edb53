// Calls on an NVIDIA GPU: cuBLASLt for matrix products of floating types. All else is torch's own kernels.
#pragma once
#include "lowering/fusion/library_calls.h"
#include "lowering/libraries/matmul_settings.h"

namespace lazuli::jit::cuda {

// Lives for the whole process; equal settings give the same object.
const lowering::Libraries& libraries(const lowering::MatmulSettings& settings);

}  // namespace lazuli::jit::cuda
