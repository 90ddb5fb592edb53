#pragma once
#include "jit/device.h"

namespace lazuli::jit {

// GPU `index`. Throws std::runtime_error when the driver, the GPU or a library that we need is missing, and says which.
Device& cuda_device(int index);

}  // namespace lazuli::jit
