// Code for the scalar primitives of ir/scalar.def, one value per lane. Each primitive is lowered here once, for all
// targets; ir/interpret/scalar.h says what each means.
#pragma once
#include <span>

#include "ir/scalar.h"
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering {

// `operand` is the type of the first argument (for select, of the condition), `result` that of the result. A literal
// is emitted with `emit_literal`.
Vec emit_primitive(ir::Prim prim, ir::DType operand, ir::DType result, std::span<const Vec> args);
Vec emit_literal(VectorIR& ir, double value, ir::DType type);
Vec emit_convert(Vec x, ir::DType from, ir::DType to);

// integer.cpp: C++ semantics, with defined results for zero divisors and overlong shifts. Bool is not an integer here.
Vec integer_divide(Vec a, Vec b, bool is_signed);
Vec integer_remainder(Vec a, Vec b, bool is_signed);
Vec integer_floor_divide(Vec a, Vec b, bool is_signed);
Vec integer_floor_modulo(Vec a, Vec b, bool is_signed);
Vec integer_power(Vec base, Vec exponent, bool is_signed);
Vec integer_shift_left(Vec a, Vec n);
Vec integer_shift_right(Vec a, Vec n, bool is_signed);

// division.cpp: the remainders of floating types.
Vec floating_fmod(Vec a, Vec b);
Vec floating_modulo(Vec a, Vec b);
Vec floating_floor_divide(Vec a, Vec b);

// random.cpp
Vec emit_random(Vec seed, Vec offset, Vec index, ir::DType result);

}  // namespace lazuli::lowering
