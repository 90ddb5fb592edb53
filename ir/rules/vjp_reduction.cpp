// Derivatives of reductions.
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// Folded dimensions back with size 1, so that y broadcasts against x.
Value keep_dims(Builder& b, const Application& a, Value y) {
  Dims shape = b.shape(a.inputs[0]);
  for (Size d : a.attrs.list(0)) shape[d] = 1;
  return b.reshape(y, shape);
}

Value sum_kept(Builder& b, const Application& a, Value x) { return b.sum(x, a.attrs.list(0), true); }

}  // namespace

void vjp_sum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  out[0] = b.broadcast(keep_dims(b, a, cotangents[0]), b.shape(a.inputs[0]));
}

void vjp_extremum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value x = a.inputs[0], gy = keep_dims(b, a, cotangents[0]);
  Value y = a.results.empty() ? b.emit(a.op, a.inputs, a.attrs) : a.results[0];
  Value winner = b.convert(b.emit(Op::eq, {x, keep_dims(b, a, y)}), b.dtype(x));
  out[0] = b.mul(winner, b.div(gy, sum_kept(b, a, winner)));
}

}  // namespace lazuli::ir
