// What a node says to Python's compiled autograd, which makes one graph of a whole backward. Torch's own nodes speak to
// its compiler through an interface that is filled in by libtorch_python, and that is for generated code.
#pragma once
#include <torch/csrc/dynamo/compiled_autograd.h>

namespace lazuli::backend {

// Computes gradients of a node's inputs; the arguments are those that the node packed.
using CompiledFunction = torch::autograd::variable_list (*)(const torch::autograd::variable_list& gradients,
                                                            const torch::autograd::ivalue_list& arguments);

// Python knows functions of graphs by their names. To be called once in a process for each.
void name_function(torch::autograd::SwapSavedVariables& graph, const char* name, CompiledFunction function,
                   std::vector<at::TypePtr> argument_types);
// Puts a call of it into the graph. The gradients it gives are for the inputs that `edges` lead to.
torch::autograd::variable_list call_function(torch::autograd::SwapSavedVariables& graph, const char* name,
                                             const torch::autograd::variable_list& gradients,
                                             const torch::autograd::ivalue_list& arguments,
                                             const torch::autograd::edge_list& edges);

}  // namespace lazuli::backend
