// All the ways to have code run beside a node. Torch's engine calls each kind by itself and cannot be asked whether
// there is any; a kind that is missing here would be forgotten.
#pragma once
#include <torch/csrc/autograd/function.h>

namespace lazuli::backend {

bool is_hooked(torch::autograd::Node& n);

}  // namespace lazuli::backend
