// Elementwise rows: the body, at each position.
#include "ir/body.h"
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"
#include "ir/interpret/scalar.h"

namespace lazuli::ir {

void interpret_elementwise(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Tensor& y = out[0];
  std::vector<DType> types;
  std::vector<Dims> strides;
  for (const Tensor* t : in) {
    types.push_back(t->type.dtype);
    strides.push_back(broadcast_strides(t->type.shape, y.type.shape.size()));
  }
  Program program = expand_body(node.op, types, y.type.dtype);
  std::vector<Cell> arguments(in.size()), cells;
  for_each(y.type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    for (size_t i = 0; i < in.size(); ++i) {
      int64_t at = dot(index, strides[i]);
      dispatch(compute_type(types[i]), [&]<class T>() { arguments[i] = cell(load<T>(*in[i], at)); });
    }
    Cell result = evaluate(program.graph, program.result, arguments, cells);
    dispatch(compute_type(y.type.dtype), [&]<class T>() { store<T>(y, flat, get<T>(result)); });
  });
}

}  // namespace lazuli::ir
