// Activations of two operands: gated linear units (Dauphin et al., arXiv 1612.08083), of the halves of a tensor, and
// rectifiers with a slope that is learned (He et al., arXiv 1502.01852). What is in 16 bits is rounded once.
#include <ATen/OpMathType.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

bool has_halves(const Tensor& x, int64_t dim) {
  return is_floating(x) && x.dim() > 0 && x.numel() > 0 && dim >= -x.dim() && dim < x.dim() && x.size(dim) % 2 == 0;
}
struct Halves {
  Tensor value, gate;  // in the type to compute in
};
Halves halves(const Tensor& x, int64_t dim) {
  const int64_t n = x.size(dim) / 2;
  const auto wide = at::toOpMathType(x.scalar_type());
  return {x.narrow(dim, 0, n).to(wide), x.narrow(dim, n, n).to(wide)};
}
Tensor glu(const Tensor& x, int64_t dim) {
  if (!has_halves(x, dim)) return fall_back<Tensor>("aten::glu", "", x, dim);
  const auto [value, gate] = halves(x, dim);
  return (value * gate.sigmoid()).to(x.scalar_type());
}
Tensor glu_backward(const Tensor& gy, const Tensor& x, int64_t dim) {
  if (!has_halves(x, dim) || !is_floating(gy)) return fall_back<Tensor>("aten::glu_backward", "", gy, x, dim);
  const auto [value, gate] = halves(x, dim);
  const Tensor open = gate.sigmoid(), g = gy.to(open.scalar_type()) * open;
  return at::cat({g, g * (1 - open) * value}, dim).to(x.scalar_type());
}

bool have_one_type(const Tensor& x, const Tensor& slope) {
  return is_floating(x) && is_ours(slope) && x.scalar_type() == slope.scalar_type();
}
Tensor prelu(const Tensor& x, const Tensor& slope) {
  if (!have_one_type(x, slope)) return fall_back<Tensor>("aten::_prelu_kernel", "", x, slope);
  const Tensor out = at::where(x > 0, x, x * slope);
  take_strides_like(out, x);
  return out;
}
std::tuple<Tensor, Tensor> prelu_backward(const Tensor& gy, const Tensor& x, const Tensor& slope) {
  if (!have_one_type(x, slope) || !have_one_type(gy, slope))
    return fall_back_tuple<2>("aten::_prelu_kernel_backward", "", gy, x, slope);
  const Tensor positive = x > 0;
  return {at::where(positive, gy, gy * slope), at::where(positive, 0, gy * x)};
}

}  // namespace

void register_activations(torch::Library& m) {
  m.impl("glu", glu);
  m.impl("glu_backward", glu_backward);
  m.impl("_prelu_kernel", prelu);
  m.impl("_prelu_kernel_backward", prelu_backward);
}

}  // namespace lazuli::backend
