// Derivatives of contractions: each is bilinear, and the three convolutions are each other's transposes.
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

Attrs convolution_attrs(const Attrs& a) {
  Attrs out;
  for (size_t i = 0; i < 6; ++i) out.add(a.list(i));
  return out;
}

Value input_grad(Builder& b, const Attrs& attrs, Value gy, Value w, SizeSpan shape) {
  return b.emit(Op::convolution_input_grad, {gy, w}, convolution_attrs(attrs).add(shape));
}

Value weight_grad(Builder& b, const Attrs& attrs, Value gy, Value x, SizeSpan shape) {
  return b.emit(Op::convolution_weight_grad, {gy, x}, convolution_attrs(attrs).add(shape));
}

Value convolve(Builder& b, const Attrs& attrs, Value x, Value w) {
  return b.emit(Op::convolution, {x, w}, convolution_attrs(attrs));
}

}  // namespace

void vjp_matmul(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                std::span<Value> out) {
  Value gy = cotangents[0];
  if (needs & 1) out[0] = b.emit(Op::matmul, {gy, b.transpose(a.inputs[1])});
  if (needs & 2) out[1] = b.emit(Op::matmul, {b.transpose(a.inputs[0]), gy});
}

void vjp_convolution(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                     std::span<Value> out) {
  Value x = a.inputs[0], w = a.inputs[1], gy = cotangents[0];
  const Dims x_shape = b.shape(x), w_shape = b.shape(w);
  if (needs & 1) out[0] = input_grad(b, a.attrs, gy, w, x_shape);
  if (needs & 2) out[1] = weight_grad(b, a.attrs, gy, x, w_shape);
}

void vjp_convolution_input_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                                std::span<Value> out) {
  Value gy = a.inputs[0], w = a.inputs[1], c = cotangents[0];
  const Dims w_shape = b.shape(w);
  if (needs & 1) out[0] = convolve(b, a.attrs, c, w);
  if (needs & 2) out[1] = weight_grad(b, a.attrs, gy, c, w_shape);
}

void vjp_convolution_weight_grad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                                 std::span<Value> out) {
  Value gy = a.inputs[0], x = a.inputs[1], c = cotangents[0];
  const Dims x_shape = b.shape(x);
  if (needs & 1) out[0] = convolve(b, a.attrs, x, c);
  if (needs & 2) out[1] = input_grad(b, a.attrs, gy, c, x_shape);
}

}  // namespace lazuli::ir
