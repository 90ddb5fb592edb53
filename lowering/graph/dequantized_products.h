// A matrix of weights in few bits is dequantized where it is used, and then multiplied. If that is by a few rows, the
// product is bound by memory, and the dequantized matrix is several times what it was made of. So the product is made
// products of elements and their sum: one kernel, which dequantizes in registers.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

class Libraries;

// Products of up to four rows with a matrix that is computed for them alone, element by element, from fewer bytes; and
// those of bytes (int_mm), which the sum makes int32 in registers.
ir::Graph dequantized_products(const ir::Graph& graph, const Libraries& libraries);
// Whether the node may be such a product, and `libraries` has nothing faster.
bool is_of_few_rows(const ir::Node& node, const Libraries& libraries);

}  // namespace lazuli::lowering
