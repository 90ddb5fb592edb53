// Rows that an operator of torch's computes as it stands: the row names it (`computed_by`, or `aten` where the
// operator that records the row computes it too).
#pragma once
#include <optional>
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

// One tensor per result, as torch gives them. None where the row names no operator, or none that takes these operands.
// `in_first`: the result may take the memory of the first operand, which has its type.
std::optional<std::vector<at::Tensor>> call_operator(const ir::Node& node, const std::vector<at::Tensor>& in,
                                                     bool in_first = false);
// Whether such an operator takes so many operands and nothing else.
bool has_operator_of(ir::Op op, size_t operands);

}  // namespace lazuli::lazy
