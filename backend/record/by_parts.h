// Operators that move numbers, or add them up, do so with the parts of complex ones: real numbers, with one more
// dimension at the end, for which there are rows.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace lazuli::backend {

// Where the operator is such a one, and its operands are complex numbers of the device: calls it with their parts, puts
// the result together, and returns true. Otherwise it does nothing.
bool call_by_parts(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace lazuli::backend
