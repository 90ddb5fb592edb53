// Quantiles, which torch writes in other operators: it looks whether `q` lies between 0 and 1 on the CPU only, where it
// can read it.
#include <ATen/ops/nanquantile_native.h>
#include <ATen/ops/quantile_native.h>
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "backend/record/requirements.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

Tensor checked(const Tensor& q) {
  if (!is_floating(q) || q.requires_grad() || q._fw_grad(0).defined()) return q;  // a check has no derivative
  return required(q, q.ge(0).logical_and(q.le(1)), ir::Requirement::Quantile);
}

Tensor quantile(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim, c10::string_view interpolation) {
  return at::native::quantile(x, checked(q), dim, keepdim, interpolation);
}
Tensor nanquantile(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                   c10::string_view interpolation) {
  return at::native::nanquantile(x, checked(q), dim, keepdim, interpolation);
}
Tensor& quantile_out(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                     c10::string_view interpolation, Tensor& out) {
  return at::native::quantile_out(x, checked(q), dim, keepdim, interpolation, out);
}
Tensor& nanquantile_out(const Tensor& x, const Tensor& q, optional<int64_t> dim, bool keepdim,
                        c10::string_view interpolation, Tensor& out) {
  return at::native::nanquantile_out(x, checked(q), dim, keepdim, interpolation, out);
}

}  // namespace

void register_quantile(torch::Library& m) {
  m.impl("quantile", quantile);
  m.impl("nanquantile", nanquantile);
  m.impl("quantile.out", quantile_out);
  m.impl("nanquantile.out", nanquantile_out);
}

}  // namespace lazuli::backend
