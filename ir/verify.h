// The executable specification of a graph: arity, operands that come earlier, attributes, and types that equal those
// the rows infer. Runs after every pass in debug builds and in the tests, and on all parsed text.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

// Both throw InternalError, or TypeError where operands do not fit.
void verify(const Graph& graph);
void verify_node(const Graph& graph, uint32_t id);

}  // namespace lazuli::ir
