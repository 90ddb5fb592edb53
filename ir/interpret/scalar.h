// Evaluates one scalar primitive on one number: the meaning that every target's lowering must have. Written to be
// read; the interpreters of graphs and of loop nests are its users.
#pragma once
#include <cstdint>
#include "ir/scalar.h"

namespace lazuli::ir {

// A number of any compute type: `f` for floating types (F32 kept rounded to float), `i` for integral types and Bool
// (kept wrapped to the type's width, Bool as 0 or 1).
struct Number {
  double f = 0;
  int64_t i = 0;
};

// `operand` is the type of the first operand that takes part in arithmetic, `result` that of the result.
Number evaluate(Prim prim, DType operand, DType result, const Number* args);
Number convert_number(Number x, DType from, DType to);
Number literal_number(double value, DType type);

// Memory of any native type, to and from its compute type.
Number load_number(const void* address, DType type);
void store_number(void* address, DType type, Number x);

}  // namespace lazuli::ir
