// Rows that parts without a plan (unplanned.h) leave to our own routines: these need no preparation, and are faster
// than what torch has for the row, or more accurate.
#pragma once
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

bool is_library_row(ir::Op op);

// The row's results, dense, from operands in the host's memory; absent ones are undefined tensors.
std::vector<at::Tensor> run_library_row(const ir::Node& node, std::vector<at::Tensor> in);

}  // namespace lazuli::lazy
