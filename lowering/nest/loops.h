// A fusion group as loops: the canonical LoopNest, which decides the code, and beside it everything that only
// decides the arguments of a launch (sizes, strides, offsets, numbers).
#pragma once
#include <string>
#include <vector>
#include "lowering/index/terms.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::lowering {

// What one access of the nest points to: element `offset` of the memory of `value`, moving by `strides`.
struct BoundAccess {
  ir::Value value;
  ir::Size offset = 0;
  ir::Dims strides;  // one per dimension of the nest
  ir::Size index_stride = 0;
  uint8_t first_stage = 0, last_stage = 0;  // in which it is used
  bool partial = false;                     // of no value: a split reduction's partial results (schedules/split.h)
};

// A stride that follows from other sizes may be -1 or 2 this time only: then it is any.
inline VectorStride stride_class(ir::Size stride) {
  if (stride == 0) return VectorStride::Zero;
  if (stride == 1) return VectorStride::One;
  if (stride.is_symbolic()) return VectorStride::Any;
  return stride.hint() == -1 ? VectorStride::Backward : stride.hint() == 2 ? VectorStride::Two : VectorStride::Any;
}

// A run-time number of the nest: a scalar of the graph, or bits known when planning.
struct BoundParam {
  int32_t scalar = -1;
  ir::Size bits = 0;
};

// What a check of the nest is about, for the message.
struct Check {
  enum Kind : uint8_t { ZeroDivisor, Index } kind;
  ir::Value by;  // the application that divides or indexes
  friend bool operator==(const Check&, const Check&) = default;
};

struct Loops {
  LoopNest nest;
  ir::Dims sizes;
  ir::Size block = 1;
  std::vector<BoundAccess> accesses;
  std::vector<BoundParam> params;
  std::vector<Check> checks;  // by number
};

// What one chunk leaves of a reduction that is cut into chunks: elements.
ir::Size partial_points(const Loops& loops);

// `needed[i]`: store i of the group is wanted by somebody outside.
Loops make_loops(const ir::Graph& graph, const Terms& terms, const std::vector<bool>& needed);

}  // namespace lazuli::lowering
