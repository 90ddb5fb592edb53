// Torch's own autograd of an operator that has a kernel of ours at the device's autograd key. To register there hides
// torch's kernel, which the dispatcher has no way to name. But torch registers the same one at the autograd key of
// every device that it knows, and nobody overrides that of XLA.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace lazuli::backend {

c10::SafeKernelFunction torch_autograd_kernel(const c10::OperatorHandle& op);

}  // namespace lazuli::backend
