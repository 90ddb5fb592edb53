// Elementwise rows: the body, at each position.
#include "ir/body.h"
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"
#include "ir/interpret/scalar.h"

namespace lazuli::ir {
namespace {

// Evaluates nodes 0 to `result` into `values`, one for each node.
Number evaluate(const ScalarGraph& graph, uint16_t result, std::span<const Number> arguments,
                std::vector<Number>& values) {
  values.resize(graph.size());
  for (uint16_t i = 0; i <= result; ++i) {
    const ScalarNode& n = graph[i];
    Number operands[3];
    for (int k = 0; k < info(n.prim).arity; ++k) operands[k] = values[n.args[k]];
    values[i] = n.prim == Prim::argument  ? arguments[n.index]
                : n.prim == Prim::literal ? literal_number(n.value, n.dtype)
                                          : evaluate(n.prim, graph[n.args[0]].dtype, n.dtype, operands);
  }
  return values[result];
}

}  // namespace

void interpret_elementwise(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor& y = out[0];
  std::vector<DType> types;
  std::vector<Dims> strides;
  for (const Tensor* t : in) {
    types.push_back(t->type.dtype);
    strides.push_back(broadcast_strides(t->type.shape, y.type.shape.size()));
  }
  Program program = expand_body(node.op, types, y.type.dtype);
  std::vector<Number> arguments(in.size()), values;
  for_each(y.type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    for (size_t i = 0; i < in.size(); ++i) {
      int64_t at = dot(index, strides[i]);
      arguments[i] = load_number(in[i]->data.data() + at * item_size(types[i]), types[i]);
    }
    Number result = evaluate(program.graph, program.result, arguments, values);
    store_number(y.data.data() + flat * item_size(y.type.dtype), y.type.dtype, result);
  });
}

}  // namespace lazuli::ir
