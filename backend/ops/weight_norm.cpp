// weight_norm's fused operators, over ordinary ones: a direction v, a length g for each slice along a dimension.
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;

bool is_covered(const Tensor& v, const Tensor& g, int64_t dim) {
  const bool floating = is_ours(v) && (v.scalar_type() == at::kFloat || v.scalar_type() == at::kDouble);
  return floating && is_ours(g) && g.scalar_type() == v.scalar_type() && v.dim() > 1 &&
         (dim == 0 || dim == v.dim() - 1);
}

// Over all dimensions but one, which stay with size 1.
Tensor sum_but(const Tensor& x, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != dim) others.push_back(d);
  return at::sum(x, others, true);
}

Pair weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  if (!is_covered(v, g, dim)) return fall_back_tuple<2>("aten::_weight_norm_interface", "", v, g, dim);
  Tensor norms = at::sqrt(sum_but(v * v, dim));
  return {v * (g / norms), norms};
}

Pair weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g, const Tensor& norms, int64_t dim) {
  if (!is_covered(v, g, dim) || !is_ours(grad) || !is_ours(norms))
    return fall_back_tuple<2>("aten::_weight_norm_interface_backward", "", grad, v, g, norms, dim);
  Tensor along = sum_but(grad * v, dim) / norms;  // of the unit direction
  return {(g / norms) * (grad - v * (along / norms)), along};
}

}  // namespace

void register_weight_norm(torch::Library& m) {
  m.impl("_weight_norm_interface", weight_norm);
  m.impl("_weight_norm_interface_backward", weight_norm_backward);
}

}  // namespace lazuli::backend
