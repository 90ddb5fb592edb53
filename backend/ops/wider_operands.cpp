// Operators whose kernel on the host wraps, overflows or is coarse in the type of its operands: it gets them in a type,
// or in a range, in which it does not.
#include <ATen/ops/clamp.h>
#include <ATen/ops/gcd.h>
#include <ATen/ops/grid_sampler_2d_backward_ops.h>
#include <ATen/ops/grid_sampler_2d_ops.h>
#include <ATen/ops/grid_sampler_3d_backward_ops.h>
#include <ATen/ops/grid_sampler_3d_ops.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <ATen/ops/result_type.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::ScalarType;

// The magnitude of the least integer is no number of its type.
bool has_wider(ScalarType type) { return type == c10::kChar || type == c10::kShort; }
Tensor common_divisor(const Tensor& a, const Tensor& b) {
  const ScalarType type = at::result_type(a, b);
  if (!has_wider(type)) return fall_back<Tensor>("aten::gcd", "", a, b);
  return at::gcd(a.to(type).to(c10::kInt), b.to(type).to(c10::kInt)).to(type);
}
Tensor& gcd_out(const Tensor& a, const Tensor& b, Tensor& out) {
  const ScalarType type = at::result_type(a, b);
  if (!has_wider(type) || out.scalar_type() != type) return fall_back<Tensor>("aten::gcd", "out", a, b, out), out;
  return store(out, common_divisor(a, b));
}
Tensor& gcd_(Tensor& a, const Tensor& b) {
  const ScalarType type = at::result_type(a, b);
  if (!has_wider(type) || a.scalar_type() != type) return fall_back<Tensor>("aten::gcd_", "", a, b), a;
  return a.copy_(common_divisor(a, b));
}

// The kernel reads 32 bits of an exponent; far fewer lead from any number to infinity or to zero.
Tensor exponents(const Tensor& e) {
  constexpr int64_t kMost = 1 << 20;
  return e.scalar_type() == c10::kLong ? at::clamp(e, -kMost, kMost) : e;
}
// Scaling a complex number by a power of two scales its parts.
Tensor scale(const Tensor& x, const Tensor& e) {
  if (x.is_complex() && c10::isIntegralType(e.scalar_type(), false)) {
    const Tensor y = scale(at::view_as_real(x), e.unsqueeze(-1));
    return at::view_as_complex(y.stride(-1) == 1 ? y : y.contiguous());
  }
  return fall_back<Tensor>("aten::ldexp", "Tensor", x, exponents(e));
}
Tensor& scale_out(const Tensor& x, const Tensor& e, Tensor& out) {
  if (!x.is_complex() || !c10::canCast(x.scalar_type(), out.scalar_type()))
    return fall_back<Tensor>("aten::ldexp", "out", x, exponents(e), out), out;
  return store(out, scale(x, e));
}
Tensor& scale_(Tensor& x, const Tensor& e) {
  return x.is_complex() ? x.copy_(scale(x, e)) : (fall_back<Tensor>("aten::ldexp_", "", x, exponents(e)), x);
}

// In 16 bits the scaled powers of a matrix leave the range, and their sums are nan.
Tensor matrix_exp(const Tensor& x) {
  if (!c10::isReducedFloatingType(x.scalar_type())) return fall_back<Tensor>("aten::linalg_matrix_exp", "", x);
  return at::linalg_matrix_exp(x.to(c10::kFloat)).to(x.scalar_type());
}

// A place between pixels that is computed in 16 bits is off by pixels where an image has some hundreds; CUDA's kernels
// compute it in 32.
bool has_coarse_places(const Tensor& x, const Tensor& grid) {
  return c10::isReducedFloatingType(x.scalar_type()) && grid.scalar_type() == x.scalar_type() &&
         lazy::backing().has_host_kernels;
}
template <class Op>
Tensor sampled(const Tensor& x, const Tensor& grid, int64_t mode, int64_t padding, bool corners) {
  if (!has_coarse_places(x, grid)) return fall_back<Tensor>(Op::name, "", x, grid, mode, padding, corners);
  return Op::call(x.to(c10::kFloat), grid.to(c10::kFloat), mode, padding, corners).to(x.scalar_type());
}
template <class Op>
std::tuple<Tensor, Tensor> sampled_backward(const Tensor& gy, const Tensor& x, const Tensor& grid, int64_t mode,
                                            int64_t padding, bool corners, std::array<bool, 2> wanted) {
  if (!has_coarse_places(x, grid) || gy.scalar_type() != x.scalar_type())
    return fall_back_tuple<2>(Op::name, "", gy, x, grid, mode, padding, corners, wanted);
  const auto [gx, ggrid] =
      Op::call(gy.to(c10::kFloat), x.to(c10::kFloat), grid.to(c10::kFloat), mode, padding, corners, wanted);
  const auto narrow = [&](const Tensor& t) { return t.defined() ? t.to(x.scalar_type()) : t; };
  return {narrow(gx), narrow(ggrid)};
}

}  // namespace

void register_wider_operands(torch::Library& m) {
  m.impl("gcd", common_divisor);
  m.impl("gcd.out", gcd_out);
  m.impl("gcd_", gcd_);
  m.impl("grid_sampler_2d", sampled<at::_ops::grid_sampler_2d>);
  m.impl("grid_sampler_2d_backward", sampled_backward<at::_ops::grid_sampler_2d_backward>);
  m.impl("grid_sampler_3d", sampled<at::_ops::grid_sampler_3d>);
  m.impl("grid_sampler_3d_backward", sampled_backward<at::_ops::grid_sampler_3d_backward>);
  m.impl("ldexp.Tensor", scale);
  m.impl("ldexp.out", scale_out);
  m.impl("ldexp_", scale_);
  m.impl("linalg_matrix_exp", matrix_exp);
}

}  // namespace lazuli::backend
