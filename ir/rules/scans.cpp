// Running sums and products, and linear recurrences: shapes, derivatives.
#include "ir/rules/scans.h"
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {

void infer_running(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_dim(attrs.number(0), in[0]->rank());
  if (in[0]->dtype == DType::Bool) type_error("running sums and products: bool is to be widened first");
  out[0] = *in[0];
}

void infer_linear_recurrence(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_dim(attrs.number(0), in[0]->rank());
  if (*in[0] != *in[1] || !is_floating(in[0]->dtype))
    type_error("linear_recurrence: expected two operands of one shape and floating type");
  out[0] = *in[0];
}

Value moved_by_one(Builder& b, Value x, Size dim, double first) {
  Dims low(b.shape(x).size(), 0), high(low.size(), 0);
  low[dim] = 1, high[dim] = -1;
  return b.emit(Op::pad, {x, b.constant(first, b.dtype(x))}, Attrs().add(low).add(high));
}

// Each element is in all sums from its own on: the same from the other end.
void vjp_cumsum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value turned = b.emit(Op::flip, {cotangents[0]}, a.attrs);
  out[0] = b.emit(Op::flip, {b.emit(Op::cumsum, {turned}, a.attrs)}, a.attrs);
}

// The product before an element, times what its later products make of their cotangents without that one: those are
// g[i] + x[i + 1] (g[i + 1] + x[i + 2] (...)). Nothing is divided, so factors may be 0.
void vjp_cumprod(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  const Size dim = a.attrs.number(0);
  if (b.shape(a.inputs[0])[dim] == 1) {  // and nothing depends on the factor, as in torch's formula
    out[0] = cotangents[0];
    return;
  }
  Value y = a.results.empty() ? b.emit(Op::cumprod, a.inputs, a.attrs) : a.results[0];
  Value behind = b.emit(Op::linear_recurrence, {a.inputs[0], cotangents[0]}, Attrs().add(dim).add(1));
  out[0] = b.mul(moved_by_one(b, y, dim, 1), behind);
}

// y is b + M y, with a's elements beside M's diagonal. b's cotangent G is g + Mt G: the recurrence in the other
// direction. That of an element of M is G of its row times y of its column.
void vjp_linear_recurrence(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                           std::span<Value> out) {
  const Size dim = a.attrs.number(0);
  const bool reverse = a.attrs.number(1) != 0;
  Value gb = b.emit(Op::linear_recurrence, {a.inputs[0], cotangents[0]}, Attrs().add(dim).add(reverse ? 0 : 1));
  if (needs & 2) out[1] = gb;
  if (!(needs & 1)) return;
  Value y = a.results.empty() ? b.emit(a.op, a.inputs, a.attrs) : a.results[0];
  out[0] = reverse ? b.mul(moved_by_one(b, gb, dim, 0), y) : b.mul(gb, moved_by_one(b, y, dim, 0));
}

int64_t terms_running(std::span<const Type* const> in, const Attrs& attrs, const Type&) {
  return in[0]->rank() ? int64_t{in[0]->shape[attrs.number(0)]} : 1;
}

}  // namespace lazuli::ir
