// Views of torch's tensors without a call through its dispatcher.
#pragma once
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

// What a row that only rearranges makes of its operand: a tensor over the same memory, or over a copy where strides
// cannot say it. Undefined if the row is none of these.
at::Tensor torch_view(const ir::Node& node, const at::Tensor& x);

}  // namespace lazuli::lazy
