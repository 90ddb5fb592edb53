// Recording of elementwise rows, for any mix of tensors and numbers.
#pragma once
#include "backend/operands.h"
#include "ir/graph.h"

namespace lazuli::backend {

// Records row `op`; an undefined tensor when the operands are not covered (the caller then falls back).
at::Tensor elementwise(ir::Op op, const Operands& operands, ir::Attrs attrs = {});
// The same, writing into `out` (in place when it is also an operand). False when not covered.
bool elementwise_into(const at::Tensor& out, ir::Op op, const Operands& operands, bool resize, ir::Attrs attrs = {});

// The common case of the hot binary rows, decided in a few compares: same type and shape, row-major. Returns an
// undefined tensor when it is another case.
at::Tensor binary_fast(ir::Op op, const at::Tensor& a, const at::Tensor& b, bool floating_only);

// A number as a tensor of this type would hold it; rows say whether theirs are.
c10::Scalar rounded(const c10::Scalar& number, ir::DType type);

}  // namespace lazuli::backend
