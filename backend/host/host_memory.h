// Torch's kernels for the host on the memory of our tensors, where that is the host's: nothing is copied.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lazuli::backend {

// Replaces the operator's arguments on the stack by its results. False: nothing is done, as some tensor of this call
// has to be copied.
bool call_on_host_memory(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey host);

}  // namespace lazuli::backend
