// Reverse mode over a whole graph, which needs neither torch nor a trace: the same inputs, and as outputs the original
// ones followed by the cotangents of every floating input, where each output's cotangent is 1 throughout.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

Graph with_gradients(const Graph& graph);

}  // namespace lazuli::ir
