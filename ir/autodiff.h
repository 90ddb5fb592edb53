// Reverse mode's inner parts, which derived decompositions share with `vjp` and `differentiate` (builder.h).
#pragma once
#include "ir/builder.h"

namespace lazuli::ir {

// The cotangents of an application's inputs through the decomposition of its row. Results that are given in
// `a.results` stand for themselves instead of being computed again; what flows through `detach` does not.
void derive_from_decomposition(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                               std::span<Value> out);

// A cotangent made to fit the operand that it belongs to: summed over broadcast dimensions, in its type.
Value fit(Builder& b, Value cotangent, Value operand);

// The cotangent of the x that a slice of these starts and steps was taken from, from the slice's.
Value spread_slice(Builder& b, Value cotangent, const Type& x, SizeSpan starts, SizeSpan steps);

// Emits a scalar expression as a graph; `arguments` by index. `known` has room for each of its nodes, and values
// already at hand. Both are converted to the expression's types where they are used, so that what it does not use is
// not read.
Value emit_formula(Builder& b, const ScalarGraph& g, uint16_t id, std::span<const Value> arguments,
                   std::span<Value> known);

}  // namespace lazuli::ir
