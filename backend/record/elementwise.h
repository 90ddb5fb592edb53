// Recording of elementwise rows, for any mix of tensors and numbers.
#pragma once
#include "backend/record/operands.h"
#include "ir/graph.h"

namespace lazuli::backend {

// Records row `op`; an undefined tensor when the operands are not covered (the caller then falls back).
at::Tensor elementwise(ir::Op op, const Operands& operands, ir::Attrs attrs = {});
// The same, writing into `out` (in place when it is also an operand). False when not covered.
bool elementwise_into(const at::Tensor& out, ir::Op op, const Operands& operands, bool resize, ir::Attrs attrs = {});

// Writing needs memory whose elements are each written once, and read before: torch's own errors otherwise.
void check_overlap(const at::Tensor& out, const Operands& operands);

// The common cases, decided in a few compares: operands of one type and shape, row-major, or a number as the second.
// An undefined tensor, or false, when it is another case.
at::Tensor unary_fast(ir::Op op, const at::Tensor& a);
at::Tensor binary_fast(ir::Op op, const at::Tensor& a, const at::Tensor& b);
bool binary_fast_in_place(ir::Op op, const at::Tensor& a, const at::Tensor& b);

// A number as a tensor of this type would hold it; rows say whether theirs are.
c10::Scalar rounded(const c10::Scalar& number, ir::DType type);
// Whether the second operand of a row whose result has `type` counts as a number of float32 (OpInfo::wide_second): a
// tensor of the device without dimensions, of another type.
bool is_wide_second(ir::Op op, const at::Tensor& second, ir::DType type);

}  // namespace lazuli::backend
