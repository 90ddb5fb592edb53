// Attention on a GPU as one operator without the bookkeeping that torch's own carry for dropout: the flash kernel for
// 16-bit types, the memory-efficient one for float32 and for a bias. It is recorded as an external call, like any
// operator that has a kernel on the backing device.
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

// q [B, H, S, D], k and v [B, H, T, D], bias broadcastable to [B, H, S, T].
bool flash(const Tensor& q, const optional<Tensor>& bias) {
  const bool narrow = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return narrow && !(bias && bias->defined()) && q.size(3) <= 256;
}
// The kernel reads the bias in vectors: its rows lie in memory at multiples of 16 elements.
optional<Tensor> full(const optional<Tensor>& bias, const Tensor& q, const Tensor& k) {
  if (!bias || !bias->defined()) return std::nullopt;
  constexpr int64_t kRow = 16;
  Tensor b = *bias;
  const int64_t keys = k.size(2), short_of = (kRow - keys % kRow) % kRow;
  if (b.size(-1) != keys) b = b.expand({b.size(0), b.size(1), b.size(2), keys});
  if (short_of) b = at::constant_pad_nd(b, {0, short_of}).slice(-1, 0, keys);
  return b.expand({q.size(0), q.size(1), q.size(2), keys});
}

// The output and the log of each row's sum of exponentials, which only the same kernel's backward understands.
std::tuple<Tensor, Tensor> attention(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& bias,
                                     bool causal, optional<double> scale) {
  if (flash(q, bias)) {
    auto r = at::_scaled_dot_product_flash_attention(q, k, v, 0.0, causal, false, scale);
    return {std::get<0>(r), std::get<1>(r)};
  }
  auto r = at::_scaled_dot_product_efficient_attention(q, k, v, full(bias, q, k), /*compute_log_sumexp=*/true, 0.0,
                                                       causal, scale);
  return {std::get<0>(r), std::get<1>(r)};
}

// The gradients of q, k, v and, where it is wanted, of the bias; else its place is empty.
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

Gradients attention_backward(const Tensor& gy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                             const Tensor& lse, const optional<Tensor>& bias, bool of_bias, bool causal,
                             optional<double> scale) {
  // Dropout's state, which nobody reads without dropout.
  const Tensor unused = at::empty({}, q.options().dtype(at::kLong));
  if (flash(q, bias)) {
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_backward(
        gy, q, k, v, out, lse, Tensor(), Tensor(), q.size(2), k.size(2), 0.0, causal, unused, unused, scale);
    return {gq, gk, gv, at::empty({0}, q.options())};
  }
  auto [gq, gk, gv, gb] = at::_scaled_dot_product_efficient_attention_backward(
      gy, q, k, v, full(bias, q, k).value_or(Tensor()), out, lse, unused, unused, 0.0, {true, true, true, of_bias},
      causal, scale);
  return {gq, gk, gv, of_bias ? gb.sum_to_size(bias->sizes()).contiguous() : at::empty({0}, q.options())};
}

// The kernels lay their results out as [B, S, H, D].
Tensor like_kernels(const Tensor& t) {
  return at::empty({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2);
}

std::tuple<Tensor, Tensor> attention_meta(const Tensor& q, const Tensor&, const Tensor&, const optional<Tensor>& bias,
                                          bool, optional<double>) {
  const int64_t rows = flash(q, bias) ? q.size(2) : (q.size(2) + 31) / 32 * 32;
  return {like_kernels(q), at::empty({q.size(0), q.size(1), rows}, q.options().dtype(at::kFloat))};
}
Gradients attention_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                  const Tensor&, const optional<Tensor>& bias, bool of_bias, bool, optional<double>) {
  return {like_kernels(q), like_kernels(k), like_kernels(v),
          of_bias ? at::empty(bias->sizes(), q.options()) : at::empty({0}, q.options())};
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("attention(Tensor q, Tensor k, Tensor v, Tensor? bias, bool causal, float? scale) -> (Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor gy, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? bias, bool of_bias, "
      "bool causal,"
      " float? scale) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(lazuli, CUDA, m) {
  m.impl("attention", attention);
  m.impl("attention_backward", attention_backward);
}
TORCH_LIBRARY_IMPL(lazuli, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
}

}  // namespace
}  // namespace lazuli::backend
