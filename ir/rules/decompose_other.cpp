// Decompositions of the remaining composites.
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {

void decompose_embedding_backward(Builder& b, const Application& a, std::span<Value> results) {
  Value gy = a.inputs[0], index = a.inputs[1];
  Size rows = a.attrs.size(0), padding = a.attrs.number(1);
  Value base = b.full(Dims{rows, b.shape(gy).back()}, 0, b.dtype(gy));
  if (padding >= 0) {
    Dims shape = b.shape(index);
    shape.push_back(1);
    Value pads = b.emit(Op::eq, {index, b.constant(static_cast<double>(padding), b.dtype(index))});
    gy = b.emit(Op::where, {b.reshape(pads, shape), b.constant(0, b.dtype(gy)), gy});
  }
  results[0] = b.emit(Op::index_add, {base, index, gy}, Attrs{{0}});
}

}  // namespace lazuli::ir
