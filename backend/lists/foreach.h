// Operators over lists of tensors: what torch.optim and clip_grad_norm_ are made of.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace lazuli::backend {

// Torch's own kernel for the operator: a loop that calls the operator for single tensors.
void torch_loop(const c10::OperatorHandle& op, torch::jit::Stack* stack);

void register_irregular_foreach(torch::Library& m);

}  // namespace lazuli::backend
