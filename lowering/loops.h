// A fusion group as loops: the canonical LoopNest, which decides the code, and beside it everything that only
// decides the arguments of a launch (sizes, strides, offsets, numbers).
#pragma once
#include <string>
#include <vector>
#include "lowering/loop_nest.h"
#include "lowering/terms.h"

namespace lazuli::lowering {

// What one access of the nest points to: element `offset` of the memory of `value`, moving by `strides`.
struct BoundAccess {
  ir::Value value;
  int64_t offset = 0;
  ir::Dims strides;  // one per dimension of the nest
  int64_t index_stride = 0;
  uint8_t first_stage = 0, last_stage = 0;  // in which it is used
  bool partial = false;                     // of no value: a split reduction's partial results (schedules/split.h)
};

// A run-time number of the nest: a scalar of the graph, or bits known when planning.
struct BoundParam {
  int32_t scalar = -1;
  int64_t bits = 0;
};

// The indices that access `access` loads are in [first, size), or the kernel reads what is not there.
struct IndexCheck {
  uint32_t access;
  int64_t first, size;
  ir::Value by;  // the row that indexes, for the message
};

struct Loops {
  LoopNest nest;
  ir::Dims sizes;
  int64_t block = 1;
  std::vector<BoundAccess> accesses;
  std::vector<BoundParam> params;
  std::vector<IndexCheck> checks;
};

// `needed[i]`: store i of the group is wanted by somebody outside.
Loops make_loops(const ir::Graph& graph, const Terms& terms, const std::vector<bool>& needed);

}  // namespace lazuli::lowering
