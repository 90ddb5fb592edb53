#include "backend/torch_internals/autograd_kernels.h"

namespace lazuli::backend {

c10::SafeKernelFunction torch_autograd_kernel(const c10::OperatorHandle& op) {
  return op.getComputedKernelForDispatchKey(c10::DispatchKey::AutogradXLA);
}

}  // namespace lazuli::backend
