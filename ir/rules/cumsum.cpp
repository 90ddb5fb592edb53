// Running sums: shape, derivative.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {

void infer_cumsum(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_dim(attrs.number(0), in[0]->rank());
  if (in[0]->dtype == DType::Bool) type_error("cumsum: bool is to be widened first");
  out[0] = *in[0];
}

// Each element is in all sums from its own on: the same from the other end.
void vjp_cumsum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value turned = b.emit(Op::flip, {cotangents[0]}, a.attrs);
  out[0] = b.emit(Op::flip, {b.emit(Op::cumsum, {turned}, a.attrs)}, a.attrs);
}

int64_t terms_cumsum(std::span<const Type* const> in, const Attrs& attrs, const Type&) {
  return in[0]->rank() ? int64_t{in[0]->shape[attrs.number(0)]} : 1;
}

}  // namespace lazuli::ir
