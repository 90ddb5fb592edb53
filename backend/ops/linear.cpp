// A linear layer whose derivative nobody wants: one call where torch writes a transposed view and a sum of a product,
// which are recorded either way.
#include <ATen/ops/linear_native.h>
#include "backend/autograd/light.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Bias = std::optional<Tensor>;

// What torch writes without a write in place, which counts as a version of the result: rows of features by a matrix of
// one row a result, all of one floating type, with a bias in up to three dimensions, and never without one for a
// vector. The rest is torch's to write.
bool fits(const Tensor& x, const Tensor& weight, const Bias& bias) {
  if (lazy::is_reference_mode() || !is_floating(x) || !is_ours(weight) || x.dim() < 1 || weight.dim() != 2 ||
      x.size(-1) != weight.size(1) || weight.scalar_type() != x.scalar_type() || !(x.dim() == 2 || x.is_contiguous()))
    return false;
  const bool has_bias = bias && bias->defined();
  return (!has_bias && x.dim() >= 2) ||
         (has_bias && x.dim() <= 3 && is_ours(*bias) && bias->scalar_type() == x.scalar_type() && bias->dim() == 1 &&
          bias->size(0) == weight.size(0));
}

Tensor record(const Tensor& x, const Tensor& weight, const Bias& bias) {
  const ir::Dims in = lazy::to_dims(x.sizes());
  ir::Dims out = in;
  out.back() = weight.size(0);
  lazy::Recording r;
  ir::Value rows = r.value(x);
  if (in.size() != 2) {
    const int64_t count = ir::product(std::span(in.data(), in.size() - 1));
    rows = r.reshape(rows, ir::Dims{count, in.back()});
  }
  ir::Value y = r.emit(ir::Op::matmul, {rows, r.permute(r.value(weight), ir::Dims{1, 0})});
  if (bias && bias->defined()) y = r.add(y, r.value(*bias));
  return r.tensor(in.size() != 2 ? r.reshape(y, out) : y, x.scalar_type());
}

Tensor plain_linear(const Tensor& x, const Tensor& weight, const Bias& bias) {
  return fits(x, weight, bias) ? record(x, weight, bias) : at::native::linear(x, weight, bias);
}

// Torch writes it in operators that have keys of their own: they count versions, and have derivatives.
Tensor differentiable_linear(c10::DispatchKeySet keys, const Tensor& x, const Tensor& weight, const Bias& bias) {
  OpTensors tensors;
  tensors.add(x), tensors.add(weight), tensors.add(bias);
  if (tensors.route(keys) != Route::Below || !fits(x, weight, bias)) return at::native::linear(x, weight, bias);
  at::AutoDispatchBelowADInplaceOrView guard;
  return record(x, weight, bias);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("linear", torch::dispatch(c10::DispatchKey::AutogradPrivateUse1, TORCH_FN(differentiable_linear)));
}

}  // namespace

void register_linear(torch::Library& m) { m.impl("linear", plain_linear); }

}  // namespace lazuli::backend
