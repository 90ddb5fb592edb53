// A row's scalar formula for given operand types, recorded once per process.
#pragma once
#include <span>
#include "ir/body.h"

namespace lazuli::lowering {

struct ScalarProgram : ir::Program {
  int cost = 0;  // in additions
  bool expensive() const { return cost >= 8; }
};

// `operands`: the types in memory; `result`: likewise. Arguments and result are of their compute types.
const ScalarProgram& scalar_program(ir::Op op, std::span<const ir::DType> operands, ir::DType result);

}  // namespace lazuli::lowering
