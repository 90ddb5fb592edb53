// Reductions with too few kept points to keep every thread busy (sums of everything, bias gradients) run as two
// kernels: launches over chunks of one reduced dimension leave partial results, and a second kernel combines them and
// does what the first would have done with the result.
#pragma once
#include <optional>
#include "lowering/nest/loops.h"

namespace lazuli::lowering {

struct SplitReduction {
  Loops partial;  // walks at most chunk_size of dimension chunk_dim
  Loops combine;
  uint32_t chunk_dim = 0;
  ir::Size chunk_size = 0, chunks = 1;
  ir::Size partial_bytes = 0;  // of the partial results, which accesses with `partial` set point into
};

// Nothing where one kernel does as well, or where what follows the reduction needs the elements again.
std::optional<SplitReduction> split_reduction(const Loops& loops, int threads);

// Cuts `dim`, which is reduced, whatever that is good for. The nest walks its elements once.
SplitReduction cut(const Loops& loops, uint32_t dim, ir::Size chunk_size, int threads);
bool walks_once(const LoopNest& nest);

}  // namespace lazuli::lowering
