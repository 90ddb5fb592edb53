// Elementwise rows as scalar programs: what the interpreter evaluates, fusion splices into kernels and the derivative
// rule differentiates.
#pragma once
#include "ir/op.h"

namespace lazuli::ir {

// The row's formula over `operands` (each of its compute type, in one graph), converted to the compute type of
// `result`, the application's result type. Storing rounds to `result` itself.
Scalar expand_body(Op op, std::span<const Scalar> operands, DType result);

// The same as a program of its own: argument i is operand i.
struct Program {
  ScalarGraph graph;
  uint16_t result = 0;
};
Program expand_body(Op op, std::span<const DType> operands, DType result);

// The body of a derivative row that has none of its own.
Scalar derived_body(Op op, const Scalar* operands);

// Whether the row's formula, on integers, has a primitive that can fail (scalar.h).
bool can_fail(Op op);

// The row whose body is just this primitive on its operands, or kNoOp: how formulas become graphs.
Op row_of(Prim p);
// The row that is the derivative of `op`, or kNoOp.
Op derivative_row(Op op);

}  // namespace lazuli::ir
