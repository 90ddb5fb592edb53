// Evaluates one scalar primitive on one number: the meaning that every target's lowering must have. Written to be
// read; the interpreter of loop nests is its user.
#pragma once
#include <cstdint>

#include "ir/scalar.h"

namespace lazuli::lowering {

// A number of any compute type: `f` for floating types (F32 kept rounded to float), `i` for integral types and Bool
// (kept wrapped to the type's width, Bool as 0 or 1).
struct Number {
  double f = 0;
  int64_t i = 0;
};

// `operand` is the type of the first operand that takes part in arithmetic, `result` that of the result.
Number evaluate(ir::Prim prim, ir::DType operand, ir::DType result, const Number* args);
Number convert_number(Number x, ir::DType from, ir::DType to);
Number literal_number(double value, ir::DType type);

// Memory of any native type, to and from its compute type.
Number load_number(const void* address, ir::DType type);
void store_number(void* address, ir::DType type, Number x);

}  // namespace lazuli::lowering
