// Decompositions of softmax and its relatives. The maximum only keeps exp in range, so nothing flows through it.
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// A 0-dim operand has one element along "dim 0".
Dims along(Builder& b, const Application& a) {
  return b.type(a.inputs[0]).rank() == 0 ? Dims{} : Dims{a.attrs.number(0)};
}

Value shifted(Builder& b, Value x, const Dims& dims) {
  if (dims.empty() || b.shape(x)[dims[0]] == 0) return b.sub(x, b.emit(Op::detach, {x}));
  Value largest = b.emit(Op::amax, {x}, Attrs().add(dims).add(1));
  return b.sub(x, b.emit(Op::detach, {largest}));
}

}  // namespace

void decompose_softmax(Builder& b, const Application& a, std::span<Value> results) {
  Dims dims = along(b, a);
  Value e = b.emit(Op::exp, {shifted(b, widen(b, a.inputs[0]), dims)});
  results[0] = b.convert(b.div(e, b.sum(e, dims, true)), b.dtype(a.inputs[0]));
}

void decompose_log_softmax(Builder& b, const Application& a, std::span<Value> results) {
  Dims dims = along(b, a);
  Value x = shifted(b, widen(b, a.inputs[0]), dims);
  Value total = b.sum(b.emit(Op::exp, {x}), dims, true);
  results[0] = b.convert(b.sub(x, b.emit(Op::log, {total})), b.dtype(a.inputs[0]));
}

void decompose_softmax_backward(Builder& b, const Application& a, std::span<Value> results) {
  Dims dims = along(b, a);
  Value gy = widen(b, a.inputs[0]), y = widen(b, a.inputs[1]);
  Value total = b.sum(b.mul(gy, y), dims, true);
  results[0] = b.convert(b.mul(b.sub(gy, total), y), b.dtype(a.inputs[0]));
}

void decompose_log_softmax_backward(Builder& b, const Application& a, std::span<Value> results) {
  Dims dims = along(b, a);
  Value gy = widen(b, a.inputs[0]), y = widen(b, a.inputs[1]);
  Value flow = b.mul(b.emit(Op::exp, {y}), b.sum(gy, dims, true));
  results[0] = b.convert(b.sub(gy, flow), b.dtype(a.inputs[0]));
}

}  // namespace lazuli::ir
