// What a contraction's epilogue reads must be there before the contraction. A normalization by running statistics
// scales and shifts by numbers that are computed from parameters behind the convolution; here such numbers go before
// it.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

class Libraries;

// Small values that larger ones are scaled or shifted by come first, if they are made of the graph's inputs alone,
// element by element.
ir::Graph early_operands(const ir::Graph& graph, const Libraries& libraries);
// Whether the node's call takes an epilogue.
bool takes_epilogue(const ir::Node& node, const Libraries& libraries);

}  // namespace lazuli::lowering
