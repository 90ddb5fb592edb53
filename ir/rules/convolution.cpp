// Convolutions: shapes, derivatives. Each is bilinear, and the three are each other's transposes.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

struct Convolution {
  SizeSpan stride, padding, dilation, output_padding;
  bool transposed;
  Size groups;
  explicit Convolution(const Attrs& a)
      : stride(a.list(0)),
        padding(a.list(1)),
        dilation(a.list(2)),
        output_padding(a.list(4)),
        transposed(a.number(3)),
        groups(a.number(5)) {}
};

void check_kernel(const Convolution& c, const Type& x, const Type& w) {
  std::string input, kernel;
  bool fits = true;
  size_t spatial = x.shape.size() - 2;
  for (size_t i = 0; i < spatial; ++i) {
    Size have = x.shape[i + 2] + 2 * c.padding[i], need = c.dilation[i] * (w.shape[i + 2] - 1) + 1;
    if (have < need) fits = false;
  }
  if (fits) return;
  for (size_t i = 0; i < spatial; ++i) {
    input += (i ? " x " : "") + std::to_string(x.shape[i + 2] + 2 * c.padding[i]);
    kernel += (i ? " x " : "") + std::to_string(c.dilation[i] * (w.shape[i + 2] - 1) + 1);
  }
  type_error("Calculated padded input size per channel: (", input, "). Kernel size: (", kernel,
             "). Kernel size can't be greater than actual input size");
}

void check_channels(const Convolution& c, const Type& x, const Type& w) {
  Size channels = c.transposed ? w.shape[0] : w.shape[1] * c.groups;
  if (!c.transposed && w.shape[0] % c.groups)
    type_error("Given groups=", c.groups, ", expected weight to be divisible by ", c.groups,
               " at dimension 0, but got weight of size [", list_text(w.shape), "] instead");
  if (x.shape[1] == channels) return;
  if (c.transposed)
    type_error("Given transposed=1, weight of size ", list_text(w.shape), ", expected input", list_text(x.shape),
               " to have ", channels, " channels, but got ", x.shape[1], " channels instead");
  type_error("Given groups=", c.groups, ", weight of size ", list_text(w.shape), ", expected input", list_text(x.shape),
             " to have ", channels, " channels, but got ", x.shape[1], " channels instead");
}

Dims convolved_shape(const Type& x, const Type& w, const Attrs& attrs) {
  Convolution c(attrs);
  size_t spatial = x.shape.size() - 2;
  if (x.rank() < 3 || x.rank() > 5 || w.rank() != x.rank() || c.stride.size() != spatial ||
      c.padding.size() != spatial || c.dilation.size() != spatial)
    type_error("convolution: expected input and weight of one rank from 3 to 5, got ", to_string(x), " and ",
               to_string(w));
  if (x.dtype != w.dtype)
    type_error("Input type (", name(x.dtype), ") and weight type (", name(w.dtype), ") should be the same");
  check_channels(c, x, w);
  if (!c.transposed) check_kernel(c, x, w);
  Dims shape{x.shape[0], c.transposed ? w.shape[1] * c.groups : w.shape[0]};
  for (size_t i = 0; i < spatial; ++i) {
    Size reach = c.dilation[i] * (w.shape[i + 2] - 1) + 1, n = x.shape[i + 2];
    shape.push_back(c.transposed ? (n - 1) * c.stride[i] - 2 * c.padding[i] + reach + c.output_padding[i]
                                 : (n + 2 * c.padding[i] - reach) / c.stride[i] + 1);
  }
  return shape;
}

void check_cotangent(const Type& gy, const Type& x, const Type& w, const Attrs& attrs) {
  Dims expected = convolved_shape(x, w, attrs);
  if (gy.shape != expected)
    type_error("Expected grad_output to have shape ", list_text(expected), ", but got ", list_text(gy.shape));
}

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

int64_t share(const Type& t, int64_t parts) { return parts ? int64_t{t.numel()} / parts : 0; }

}  // namespace

void infer_convolution(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = convolved_shape(*in[0], *in[1], attrs);
}

void infer_convolution_input_grad(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = Dims(attrs.list(6));
  check_cotangent(*in[0], out[0], *in[1], attrs);
}

void infer_convolution_weight_grad(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = Dims(attrs.list(6));
  check_cotangent(*in[0], *in[1], out[0], attrs);
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

int64_t terms_convolution(std::span<const Type* const> in, const Attrs&, const Type&) {
  return share(*in[1], in[1]->shape[0]);
}
int64_t terms_convolution_input_grad(std::span<const Type* const> in, const Attrs&, const Type&) {
  return share(*in[1], in[1]->shape[1]);
}
int64_t terms_convolution_weight_grad(std::span<const Type* const> in, const Attrs&, const Type&) {
  return share(*in[0], in[0]->shape[1]);
}

}  // namespace lazuli::ir
