// Where a row's result may be off by rounding, as its own definition says it.
#pragma once
#include "ir/op.h"

namespace lazuli::ir {

// Whether the row's results are numbers of its operands, perhaps negated or without a sign or a fraction, or truth
// values and positions: the same in every type that holds the operands.
bool is_exact(Op op);

// Whether the row is exact or one of IEEE 754's operations, which round once: whoever computes it from the same
// operands gets the same bits.
bool is_rounded_once(Op op);

// Terms that one element of result 0 adds up; 0: the row adds nothing up, or only a few terms that its formula shows.
int64_t terms(Op op, std::span<const Type* const> inputs, const Attrs& attrs, const Type& result);

}  // namespace lazuli::ir
