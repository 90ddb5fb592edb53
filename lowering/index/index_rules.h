// The few Index rows that are loads at a run-time index or stores into windows of their result, as data for fusion.
// Rows without a rule here are library calls.
#pragma once
#include <vector>
#include "lowering/index/terms.h"

namespace lazuli::lowering {

// result[p] = operand 0 at `operand`(p) + index_stride * operand 1 at `index`(p); windows over the result's shape.
struct IndexedRead {
  ir::StridedWindow operand, index;
  ir::Size index_stride, index_size;  // the index is below index_size
};

struct IndexRule {
  IndexedRead (*read)(const ir::Graph& graph, ir::Value v) = nullptr;
  // The stores that together make the value, in this order where they overlap.
  std::vector<Root> (*place)(const ir::Graph& graph, ir::Value v) = nullptr;
  bool overlapping = false;
};

const IndexRule* index_rule(ir::Op op);

}  // namespace lazuli::lowering
