// Views of torch's tensors without a call through its dispatcher, and so without a derivative. torch_row makes the same
// by torch's operators.
#pragma once
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

// What a view row makes of its operand: a tensor over the same memory, or over a copy where strides cannot say it.
// Undefined for other rows, and where torch has no such strides.
at::Tensor torch_view(const ir::Node& node, const at::Tensor& x);

}  // namespace lazuli::lazy
