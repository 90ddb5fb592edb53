// Shape rules of contractions.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

std::string dims_text(const Type& t) { return size_text(t.shape); }

void check_same_type(const Type& a, const Type& b) {
  if (a.dtype != b.dtype)
    type_error("expected m1 and m2 to have the same dtype, but got: ", name(a.dtype), " != ", name(b.dtype));
}

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

}  // namespace

void infer_matmul(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type &a = *in[0], &b = *in[1];
  if (a.rank() != b.rank() || a.rank() < 2 || a.rank() > 3)
    type_error("matmul: expected two matrices or two batches of matrices, got ", to_string(a), " and ", to_string(b));
  check_same_type(a, b);
  if (a.rank() == 2 && a.shape[1] != b.shape[0])
    type_error("mat1 and mat2 shapes cannot be multiplied (", dims_text(a), " and ", dims_text(b), ")");
  if (a.rank() == 3 && (a.shape[0] != b.shape[0] || a.shape[2] != b.shape[1]))
    type_error("Expected size for first two dimensions of batch2 tensor to be: [", a.shape[0], ", ", a.shape[2],
               "] but got: [", b.shape[0], ", ", b.shape[1], "].");
  out[0] = a;
  out[0].shape.back() = b.shape.back();
}

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

}  // namespace lazuli::ir
