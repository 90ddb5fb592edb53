// Adam's step for a parameter as one loop on the CPU, for parts that have no plan (unplanned.h): op by op it would move
// the parameter and its state a dozen times, which eager does in place.
#pragma once
#include <array>
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

// Whether there is a loop for this row (adam_step): float32, with bias corrections that are known, never skipped,
// without a largest square.
bool has_adam_loop(const ir::Node& node);

// The row's operands that its first three results follow from, and which they may be written over.
inline constexpr std::array<size_t, 3> kAdamState{0, 2, 3};

// Writes x, mean and square. Operands and results are dense, and of one shape.
void run_adam_loop(const ir::Node& node, const std::vector<at::Tensor>& in, const std::array<at::Tensor, 3>& out);

}  // namespace lazuli::lazy
