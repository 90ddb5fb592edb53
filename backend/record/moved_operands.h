// Operands on the CPU beside operands on the device. Eager refuses such a mixture, and so does Lazuli, unless the
// setting `move_host_operands` is on: it is for programs that name no device, whose tensors are partly on the device
// all the same (torch_lazuli/takeover).
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lazuli::backend {

// Where the setting is on and operands are mixed: moves those of the CPU to the device, calls the operator there,
// copies back what it wrote, and returns true. Otherwise it does nothing.
bool call_with_moved_operands(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Above autograd, for operands of the CPU that require grad: moves them in such a way that their gradients come back to
// the CPU. Torch refuses a gradient on another device than its tensor's.
void move_what_requires_grad(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lazuli::backend
