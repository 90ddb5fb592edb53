// Derivatives of pooling and running sums.
#include "ir/error.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {

// Each element is in all sums from its own on: the same from the other end.
void vjp_cumsum(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value turned = b.emit(Op::flip, {cotangents[0]}, a.attrs);
  out[0] = b.emit(Op::flip, {b.emit(Op::cumsum, {turned}, a.attrs)}, a.attrs);
}

void vjp_max_pool2d(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]);
  Value positions = a.results.size() == 2 ? a.results[1] : Value{};
  if (!positions) {
    Value y = b.emit(Op::max_pool2d, a.inputs, a.attrs);
    positions = {y.node, y.result + 1};
  }
  if (cotangents[0]) out[0] = b.emit(Op::max_pool2d_grad, {cotangents[0], positions}, Attrs().add(shape));
}

// Each cotangent element went to one position of its plane: read it back there.
void vjp_max_pool2d_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                         std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]), plane = b.shape(cotangents[0]);
  Size planes = product(SizeSpan(shape).first(shape.size() - 2));
  auto flat = [&](Value v, const Dims& s) { return b.reshape(v, Dims{planes, s[s.size() - 2] * s[s.size() - 1]}); };
  Value picked = b.emit(Op::gather, {flat(cotangents[0], plane), flat(a.inputs[1], shape)}, Attrs{{1}});
  out[0] = b.reshape(picked, shape);
}

void vjp_avg_pool2d(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  const Dims shape = b.shape(a.inputs[0]);
  Attrs attrs = a.attrs;
  out[0] = b.emit(Op::avg_pool2d_grad, {cotangents[0]}, attrs.add(shape));
}

void vjp_avg_pool2d_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                         std::span<Value> out) {
  Attrs attrs;
  for (size_t i = 0; i < 6; ++i) attrs.add(a.attrs.list(i));
  out[0] = b.emit(Op::avg_pool2d, {cotangents[0]}, attrs);
}

}  // namespace lazuli::ir
