// Decisions about a nest before any code: lanes, unrolling, and which instructions have one value for all lanes.
#pragma once
#include <vector>

#include "lowering/codegen.h"
#include "lowering/loop_nest.h"

namespace lazuli::lowering::cpu {

// Where an instruction runs, from the outside in.
enum class Level : uint8_t {
  Kernel,  // depends on run-time numbers only: once per call
  Unit,    // the same for a whole unit and all lanes: once per unit (Column: before the loop over vectors)
  Point,   // with the row instructions of its stage
  Element,
};

struct NestPlan {
  unsigned lanes = 16;
  std::vector<unsigned> unroll;   // vectors per pass of the unmasked loop, per stage (Column: all the same)
  bool masked_only = false;       // passes of one vector are all masked: half of the code
  bool rows_written_out = false;  // tiled nests: the rows of a square are no loop
  std::vector<Level> level;       // per instruction
  std::vector<bool> uniform;      // one value for all lanes, kept as a scalar
  std::vector<bool> splat;        // a uniform value that some vector instruction reads
};

NestPlan plan_nest(const LoopNest& nest, const CpuTarget& target);

// Instructions that `x` reads.
inline unsigned operand_count(const LoopNest& nest, const Inst& x) {
  switch (x.code) {
    case Code::Prim:
      return ir::info(x.prim).arity;
    case Code::Load:
      return nest.accesses[x.slot].indexed ? 1 : 0;
    case Code::Store:
      return nest.accesses[x.slot].indexed ? 2 : 1;
    case Code::Reduce:
      return 1;
    default:
      return 0;
  }
}

}  // namespace lazuli::lowering::cpu
