// Recording of functions of complex numbers as rows over their parts (ir/ops/complex.def).
#pragma once
#include "backend/record/operands.h"

namespace lazuli::backend {

// Whether it is on the device and of complex numbers whose parts are of a type that kernels of ours compute in.
bool has_parts(const at::Tensor& x);
// Whether it is on the device and real, of such a type.
bool may_be_part(const at::Tensor& x);
// The same memory as real numbers, with a last dimension of 2.
at::Tensor parts_of(const at::Tensor& x);

// Records the row that computes `op` of complex numbers, where there is one; an undefined tensor where there is none,
// or the operands are not covered.
at::Tensor complex_elementwise(ir::Op op, const Operands& operands);
// The same, writing into `out`. False when not covered.
bool complex_elementwise_into(const at::Tensor& out, ir::Op op, const Operands& operands, bool resize);

// Row `op`, one of complex.def, of these operands.
at::Tensor complex_row(ir::Op op, const Operands& operands);
bool complex_row_into(const at::Tensor& out, ir::Op op, const Operands& operands, bool resize);

// Complex numbers of these parts, which are of one type; an undefined tensor where they are not covered.
at::Tensor complex_of(const at::Tensor& re, const at::Tensor& im);

// The value of a complex number, of shape [2].
ir::Value complex_number(lazy::Recording& r, const c10::Scalar& number, ir::DType type);

}  // namespace lazuli::backend
