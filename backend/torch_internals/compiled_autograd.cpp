#include "backend/torch_internals/compiled_autograd.h"

namespace lazuli::backend {

namespace autograd = torch::autograd;
namespace dynamo = torch::dynamo::autograd;

void name_function(autograd::SwapSavedVariables& graph, const char* name, CompiledFunction function,
                   std::vector<at::TypePtr> argument_types) {
  dynamo::getPyCompilerInterface()->bind_function(graph.get_py_compiler(), name, function, std::move(argument_types));
}

autograd::variable_list call_function(autograd::SwapSavedVariables& graph, const char* name,
                                      const autograd::variable_list& gradients, const autograd::ivalue_list& arguments,
                                      const autograd::edge_list& edges) {
  using Described = std::vector<std::optional<autograd::InputMetadata>>;
  return dynamo::getPyCompilerInterface()->call_function(
      graph.get_py_compiler(), "apply_functional", name, gradients, arguments,
      dynamo::IValuePacker<Described>::pack(dynamo::get_input_metadata(edges)));
}

}  // namespace lazuli::backend
