// The IR as text, one line per node, which `parse` (parse.h) reads back to the same graph:
//   %3 : f32[2,3] = sum %1 [dims=1 keepdim=1] ; model.py:12
// Several results stand before the `=`, separated by commas; `_` is an absent operand.
#pragma once
#include <string>
#include "ir/graph.h"

namespace lazuli::ir {

std::string print(const Graph& graph);
std::string print_node(const Graph& graph, uint32_t node);  // one line, without its end

}  // namespace lazuli::ir
