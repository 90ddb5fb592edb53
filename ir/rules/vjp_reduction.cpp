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

// The product of the others: y / x where no factor is 0, and where one is, only that one has a derivative.
void vjp_prod(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value x = a.inputs[0], gy = keep_dims(b, a, cotangents[0]);
  Value zero = b.constant(0, b.dtype(x)), one = b.constant(1, b.dtype(x));
  Value is_zero = b.emit(Op::eq, {x, zero});
  Value zeros = sum_kept(b, a, b.convert(is_zero, b.dtype(x)));
  Value nonzero = b.emit(Op::where, {is_zero, one, x});
  Value others = b.emit(Op::prod, {nonzero}, Attrs().add(a.attrs.list(0)).add(1));
  Value counts = b.emit(Op::eq, {zeros, b.convert(is_zero, b.dtype(x))});  // no zero among the other factors
  out[0] = b.emit(Op::where, {counts, b.mul(gy, b.div(others, nonzero)), zero});
}

void vjp_extremum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value x = a.inputs[0], gy = keep_dims(b, a, cotangents[0]);
  Value y = a.results.empty() ? b.emit(a.op, a.inputs, a.attrs) : a.results[0];
  Value winner = b.convert(b.emit(Op::eq, {x, keep_dims(b, a, y)}), b.dtype(x));
  out[0] = b.mul(winner, b.div(gy, sum_kept(b, a, winner)));
}

}  // namespace lazuli::ir
