// Decisions about a nest before any code: lanes, unrolling, and which instructions have one value for all lanes.
#pragma once
#include <vector>

#include "lowering/nest/codegen.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::lowering::cpu {

// Where an instruction runs, from the outside in.
enum class Level : uint8_t {
  Kernel,  // depends on run-time numbers only: once per call
  Unit,    // the same for a whole unit and all lanes: once per unit (Column: before the loop over vectors)
  Point,   // with the row instructions of its stage
  Element,
};

// Whether an instruction's values are kept from stage to stage: by the first that gives them, for those that repeat it.
enum class Kept : uint8_t { No, First, Again };

struct NestPlan {
  unsigned lanes = 16;
  std::vector<unsigned> unroll;  // vectors per pass of the unmasked loop, per stage (Column: all the same)
  bool masked_only = false;      // passes of one vector are all masked: half of the code
  // Column: the loop over the reduced dimension is outside the one over a block's vectors.
  bool row_by_row = false;
  bool rows_written_out = false;  // tiled nests: the rows of a square are no loop
  // Row: so many vectors hold a whole row, and each element instruction runs once on all of them; 0: loops.
  unsigned row_vectors = 0;
  std::vector<Level> level;   // per instruction
  std::vector<bool> uniform;  // one value for all lanes, kept as a scalar
  std::vector<bool> splat;    // a uniform value that some vector instruction reads
  // Of rows with a bound: the first instruction that gives what this one gives, in an earlier stage or in this one.
  std::vector<uint16_t> same;
  std::vector<Kept> kept;  // per instruction, where any is
};

NestPlan plan_nest(const LoopNest& nest, const CpuTarget& target);

}  // namespace lazuli::lowering::cpu
