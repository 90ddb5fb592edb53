// Scaled dot-product attention goes to the backing device's fused kernel, as one external call; what that kernel does not
// cover is torch's decomposition into products and softmax.
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include "backend/registration.h"
#include "backend/dispatch.h"
#include "backend/operands.h"
#include "lazy/backing.h"
#include "lazy/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

// The fused kernels walk the last dimension without looking at its stride.
bool is_walked(const Tensor& t) { return t.dim() == 0 || t.size(-1) <= 1 || t.stride(-1) == 1; }
bool is_walked_as_mask(const Tensor& t) { return is_walked(t) || t.stride(-1) == 0; }

// What the fused kernels have in common: four dimensions, one floating type, no dropout. A gradient of the mask, which
// relative positions need, is there on a GPU alone; a causal mask beside another one on the CPU alone.
bool fused(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, double dropout, bool causal) {
  for (const Tensor* t : {&q, &k, &v})
    if (!is_ours(*t) || t->dim() != 4 || !c10::isFloatingType(t->scalar_type()) || t->scalar_type() != q.scalar_type() || t->numel() == 0 ||
        !is_walked(*t))
      return false;
  bool sizes = q.size(1) == k.size(1) && k.sizes() == v.sizes() && q.size(3) == k.size(3);
  bool has_mask = mask && mask->defined();
  if (has_mask && !is_walked_as_mask(*mask)) return false;
  if (has_mask && ((lazy::backing().is_gpu() ? causal : mask->requires_grad()) || (mask->scalar_type() != at::kBool && mask->scalar_type() != q.scalar_type()))) return false;
  if (lazy::backing().is_gpu()) {
    // Rows of 16 bytes, and no float64.
    const int64_t lane = 16 / static_cast<int64_t>(q.itemsize());
    if (q.scalar_type() == at::kDouble || q.size(3) % lane) return false;
  }
  return sizes && dropout == 0.0;
}

// The order is the one of aten's function table: (out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, seed, offset, mask).
using Attention = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& bias, double dropout, bool causal, bool,
                    optional<double> scale) {
  if (lazy::backing().is_gpu()) {
    auto [out, lse] = fall_back_tuple<2>("lazuli::attention", "", q, k, v, bias, causal, scale);
    return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), Tensor(), Tensor(), Tensor()};
  }
  auto [out, lse] = fall_back_tuple<2>("aten::_scaled_dot_product_flash_attention_for_cpu", "", q, k, v, dropout, causal, bias, scale);
  return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(const Tensor& gy, const Tensor& q, const Tensor& k, const Tensor& v,
                                                              const Tensor& bias, std::array<bool, 4> wanted, const Tensor& out,
                                                              const Tensor& lse, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt,
                                                              double dropout, bool causal, const Tensor&, const Tensor&,
                                                              optional<double> scale) {
  optional<Tensor> mask = bias.defined() ? optional<Tensor>(bias) : std::nullopt;
  if (lazy::backing().is_gpu()) {
    auto [gq, gk, gv, gb] =
        fall_back_tuple<4>("lazuli::attention_backward", "", gy, q, k, v, out, lse, mask, mask && wanted[3], causal, scale);
    return {gq, gk, gv, mask && wanted[3] ? gb : Tensor()};
  }
  auto [gq, gk, gv] = fall_back_tuple<3>("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "", gy, q, k, v, out, lse, dropout,
                                         causal, mask, scale);
  return {gq, gk, gv, Tensor()};
}

}  // namespace

void register_attention(torch::Library& m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

int64_t attention_choice(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, double dropout, bool causal,
                         optional<double> scale, bool gqa) {
  // Torch then calls the host's kernel by its own operator, with that one's derivative.
  if (lazy::is_reference_mode() && !lazy::backing().is_gpu())
    return at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), q, k, v, mask, dropout, causal, scale, gqa);
  auto choice = fused(q, k, v, mask, dropout, causal) && !gqa ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math;
  return static_cast<int64_t>(choice);
}

}  // namespace lazuli::backend

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &lazuli::backend::attention_choice)
}
