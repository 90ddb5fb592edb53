// Libraries for matrix products have fast code for sizes that are multiples of a few elements; a vocabulary of 50,257
// makes cuBLAS seven times slower than one of 50,264. Such products get zeros behind their operands, and a view of what
// was asked for is taken from the larger result. Whoever makes an operand writes it into the larger one at once.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

class Libraries;

// Looks at products of two matrices whose sizes are all large; `libraries` says what is a good multiple for each.
ir::Graph align_products(const ir::Graph& graph, const Libraries& libraries);
// Whether the node may be such a product.
bool is_slow_product(const ir::Node& node, const Libraries& libraries);

}  // namespace lazuli::lowering
