// Quantized models multiply matrices of bytes and add up in int32. Where torch has no operator for that, scripts
// convert both to int32 and multiply these. A library that takes bytes is several times faster.
#pragma once
#include "ir/graph.h"

namespace lazuli::lowering {

class Libraries;

// Products of int32 whose operands are converted from bytes become int_mm, where `libraries` serves that.
ir::Graph byte_products(const ir::Graph& graph, const Libraries& libraries);
// Whether the node may be such a product.
bool is_of_int32(const ir::Node& node, const Libraries& libraries);

}  // namespace lazuli::lowering
