// Each row as torch computes it: the ATen operator that the row stands for, called through the dispatcher on tensors of
// the backing device. Shadow runs compare with it (shadow.h); what a plan leaves to torch is a smaller table
// (eager_rows.h).
#pragma once
#include <optional>
#include <span>
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

// One tensor per result, not converted to the row's types: where floating operands are float64, so are results. Absent
// operands are undefined. None: torch has no such operator, or not for these operands. `in_first`: the result may take
// the memory of the first operand, which has its type.
std::optional<std::vector<at::Tensor>> torch_row(const ir::Node& node, const std::vector<at::Tensor>& in,
                                                 bool in_first = false);

// The same of composites (torch_composites.cpp).
std::optional<std::vector<at::Tensor>> torch_composite(const ir::Node& node, const std::vector<at::Tensor>& in);
// Whether it ever gives something for such a row by an operator of torch's that is one kernel.
bool has_torch_composite(const ir::Node& node);

}  // namespace lazuli::lazy
