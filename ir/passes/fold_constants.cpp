// Values that depend on constants alone are computed here, by the interpreter. Only single elements: a large constant
// would cost memory that computing it again does not.
#include <cmath>
#include "ir/body.h"
#include "ir/interpret.h"
#include "ir/passes/pass.h"
#include "ir/passes/rewrite.h"

namespace lazuli::ir::passes {
namespace {

Tensor tensor_of(const Type& type, double number) { return Tensor(Type{type.dtype, {}}, std::span(&number, 1)); }

// An elementwise node of 0-dim result whose operands are all constants.
Value fold(Rewriter& r, const Node& n) {
  if (!is_elementwise(n.op) || n.types[0].rank() != 0 || !is_native(n.types[0].dtype)) return {};
  if (is_integral(n.types[0].dtype) && can_fail(n.op)) return {};  // an error is the kernel's to report
  std::vector<Tensor> tensors;
  for (Value v : r.operands(n)) {
    double number;
    if (r.to()[v].op != Op::constant || !constant_value(r.to(), v, number)) return {};
    tensors.push_back(tensor_of(r.to().type(v), number));
  }
  std::vector<const Tensor*> operands;
  for (const Tensor& t : tensors) operands.push_back(&t);
  double result = interpret_node(n, operands)[0].at(0);
  // Integers past 2 ** 53 do not pass through a double.
  if (!is_floating(n.types[0].dtype) && std::abs(result) > 0x1p53) return {};
  return r.builder().constant(result, n.types[0].dtype);
}

}  // namespace

Graph fold_constants(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) { return fold(r, r.from().nodes[id]); });
}

}  // namespace lazuli::ir::passes
