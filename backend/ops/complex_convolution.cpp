// Complex convolutions as four real ones. Torch's composite takes three, of sums of parts: that rounds sums that cancel
// later, and makes nan of infinities that do not meet. Real ones go on to torch's composite.
#include <ATen/ops/complex.h>
#include <ATen/ops/conv1d_native.h>
#include <ATen/ops/conv1d_ops.h>
#include <ATen/ops/conv2d_native.h>
#include <ATen/ops/conv2d_ops.h>
#include <ATen/ops/conv3d_native.h>
#include <ATen/ops/conv3d_ops.h>
#include <ATen/ops/conv_transpose1d_native.h>
#include <ATen/ops/conv_transpose1d_ops.h>
#include <ATen/ops/conv_transpose2d_native.h>
#include <ATen/ops/conv_transpose2d_ops.h>
#include <ATen/ops/conv_transpose3d_native.h>
#include <ATen/ops/conv_transpose3d_ops.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/real.h>
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::SymInt;
using c10::SymIntArrayRef;
using std::optional;

// `real` convolves real tensors over `dims` dimensions, and `composite` is torch's for all. Both have autograd below
// them, so this has too.
template <int dims, auto real, auto composite, class... Options>
Tensor convolve(const Tensor& x, const Tensor& w, const optional<Tensor>& bias, Options... options) {
  const bool biased = bias && bias->defined();
  if (!x.is_complex() || w.scalar_type() != x.scalar_type() || (biased && bias->scalar_type() != x.scalar_type()))
    return composite(x, w, bias, options...);
  if (x.dim() == dims + 1) return convolve<dims, real, composite>(x.unsqueeze(0), w, bias, options...).squeeze(0);
  const Tensor xr = at::real(x), xi = at::imag(x), wr = at::real(w), wi = at::imag(w);
  const optional<Tensor> br = biased ? optional(at::real(*bias)) : std::nullopt,
                         bi = biased ? optional(at::imag(*bias)) : std::nullopt;
  const Tensor first = real(xr, wr, br, options...);  // before the others: errors are of all operands
  const Tensor re = first - real(xi, wi, std::nullopt, options...);
  const Tensor im = real(xr, wi, bi, options...) + real(xi, wr, std::nullopt, options...);
  return at::complex(re, im);
}

}  // namespace

void register_complex_convolution(torch::Library& m) {
  using List = SymIntArrayRef;
  m.impl("conv1d", convolve<1, at::_ops::conv1d::call, at::native::conv1d_symint, List, List, List, SymInt>);
  m.impl("conv2d", convolve<2, at::_ops::conv2d::call, at::native::conv2d_symint, List, List, List, SymInt>);
  m.impl("conv3d", convolve<3, at::_ops::conv3d::call, at::native::conv3d_symint, List, List, List, SymInt>);
  m.impl("conv_transpose1d", convolve<1, at::_ops::conv_transpose1d::call, at::native::conv_transpose1d_symint, List,
                                      List, List, SymInt, List>);
  m.impl("conv_transpose2d.input", convolve<2, at::_ops::conv_transpose2d_input::call,
                                            at::native::conv_transpose2d_symint, List, List, List, SymInt, List>);
  m.impl("conv_transpose3d.input", convolve<3, at::_ops::conv_transpose3d_input::call,
                                            at::native::conv_transpose3d_symint, List, List, List, SymInt, List>);
}

}  // namespace lazuli::backend
