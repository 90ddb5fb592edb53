// A row's scalar formula for given operand types, recorded once per process.
#pragma once
#include <span>
#include "ir/body.h"

namespace lazuli::lowering {

struct ScalarProgram : ir::Program {
  int cost = 0;  // in additions
  // The result is a bfloat16 (a float16) wherever all floating arguments are: rounding it to that type does nothing.
  bool keeps_narrow = false;
  bool expensive() const { return cost >= 8; }
};

// `operands`: the types in memory; `result`: likewise. Arguments and result are of their compute types.
const ScalarProgram& scalar_program(ir::Op op, std::span<const ir::DType> operands, ir::DType result);

}  // namespace lazuli::lowering
