// Accumulators of Reduce instructions: starting values, steps, and joining of accumulators and of lanes.
#pragma once
#include "lowering/nest/loop_nest.h"
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering {

inline bool is_arg(Reduce r) { return r == Reduce::ArgMax || r == Reduce::ArgMin; }

// For Arg* the best value so far and its position, -1 before the first.
struct Accumulator {
  llvm::Value* value = nullptr;
  llvm::Value* position = nullptr;
};

// `type`: what is accumulated, which for Arg* is the operand's type.
Accumulator start_reduction(VectorIR& ir, Reduce reduce, ir::DType type);
// `active`: lanes that take part, or null for all. `position` is looked at for Arg* only.
Accumulator reduction_step(VectorIR& ir, Reduce reduce, ir::DType type, Accumulator a, Vec x, llvm::Value* position,
                           llvm::Value* active);
Accumulator join(VectorIR& ir, Reduce reduce, ir::DType type, Accumulator a, Accumulator b);
Accumulator join_lanes(VectorIR& ir, Reduce reduce, ir::DType type, Accumulator a);  // leaves scalars
llvm::Value* reduction_result(VectorIR& ir, Reduce reduce, Accumulator a);

}  // namespace lazuli::lowering
