// Attention on a GPU as one operator: torch's flash kernel for 16-bit types, the memory-efficient one for float32 and
// for a bias. It is recorded as an external call, like any operator that has a kernel on the backing device. Where it
// drops weights, which of them follows from the device's generator at the place where the call was recorded.
#include <vector>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>
#include "backend/device/gpu_generator.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

// q [B, H, S, D], k and v [B, H, T, D]; bias broadcastable to [B, H, S, T], but for columns that may follow.
bool flash(const Tensor& q, const optional<Tensor>& bias) {
  const bool narrow = q.scalar_type() == at::kHalf || q.scalar_type() == at::kBFloat16;
  return narrow && !(bias && bias->defined()) && q.size(3) <= 256;
}
optional<Tensor> full(const optional<Tensor>& bias, const Tensor& q, const Tensor& k) {
  if (!bias || !bias->defined()) return std::nullopt;
  return bias->slice(-1, 0, k.size(2)).expand({q.size(0), q.size(1), q.size(2), k.size(2)});
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

// The third result says which weights are dropped, for the derivative: i64[2] on the device.
std::tuple<Tensor, Tensor, Tensor> attention_with_dropout(const Tensor& q, const Tensor& k, const Tensor& v,
                                                          const optional<Tensor>& bias, double dropout, bool causal,
                                                          optional<double> scale, int64_t seed, int64_t offset,
                                                          int64_t) {
  std::tuple<Tensor, Tensor, Tensor> results;
  call_drawing_at(seed, offset, [&] {
    if (flash(q, bias)) {
      auto r = at::_scaled_dot_product_flash_attention(q, k, v, dropout, causal, false, scale);
      results = {std::get<0>(r), std::get<1>(r), std::get<6>(r).view(at::kLong)};
      return;
    }
    const auto [out, lse, from, at] =
        at::_scaled_dot_product_efficient_attention(q, k, v, full(bias, q, k), true, dropout, causal, scale);
    const Tensor dropped = at::empty({2}, q.options().dtype(at::kLong));
    dropped[0].fill_(from.item());  // the host's
    dropped[1].fill_(at.item());
    results = {out, lse, dropped};
  });
  return results;
}

// The gradients of q, k, v and, where it is wanted, of the bias; else its place is empty.
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;

std::vector<int64_t> sizes_of_gradient(const Tensor& bias, const Tensor& k) {
  std::vector<int64_t> sizes = bias.sizes().vec();
  sizes.back() = k.size(2);
  return sizes;
}

Gradients attention_backward(const Tensor& gy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                             const Tensor& lse, const optional<Tensor>& bias, bool of_bias, bool causal,
                             optional<double> scale, const optional<Tensor>& dropped, double dropout) {
  // Dropout's state, which nobody reads without dropout.
  const Tensor unused = at::empty({}, q.options().dtype(at::kLong));
  if (flash(q, bias)) {
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_backward(
        gy, q, k, v, out, lse, Tensor(), Tensor(), q.size(2), k.size(2), dropout, causal,
        dropped ? dropped->view(at::kUInt64) : unused, unused, scale);
    return {gq, gk, gv, at::empty({0}, q.options())};
  }
  // This kernel wants to know on the host what was dropped: that waits until the forward has run.
  const Tensor place = dropped ? dropped->cpu() : unused.expand({2});
  auto [gq, gk, gv, gb] = at::_scaled_dot_product_efficient_attention_backward(
      gy, q, k, v, full(bias, q, k).value_or(Tensor()), out, lse, place[0], place[1], dropout,
      {true, true, true, of_bias}, causal, scale);
  return {gq, gk, gv, of_bias ? gb.sum_to_size(sizes_of_gradient(*bias, k)).contiguous() : at::empty({0}, q.options())};
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
std::tuple<Tensor, Tensor, Tensor> attention_with_dropout_meta(const Tensor& q, const Tensor& k, const Tensor& v,
                                                               const optional<Tensor>& bias, double, bool causal,
                                                               optional<double> scale, int64_t, int64_t, int64_t) {
  auto [out, lse] = attention_meta(q, k, v, bias, causal, scale);
  return {out, lse, at::empty({2}, q.options().dtype(at::kLong))};
}
Gradients attention_backward_meta(const Tensor&, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
                                  const Tensor&, const optional<Tensor>& bias, bool of_bias, bool, optional<double>,
                                  const optional<Tensor>&, double) {
  return {like_kernels(q), like_kernels(k), like_kernels(v),
          of_bias ? at::empty(sizes_of_gradient(*bias, k), q.options()) : at::empty({0}, q.options())};
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("attention(Tensor q, Tensor k, Tensor v, Tensor? bias, bool causal, float? scale) -> (Tensor, Tensor)");
  m.def(
      "attention_with_dropout(Tensor q, Tensor k, Tensor v, Tensor? bias, float dropout_p, bool causal, float? scale, "
      "int seed, int offset, int drawn) -> (Tensor, Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor gy, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? bias, bool of_bias, "
      "bool causal, float? scale, Tensor? dropped, float dropout_p) -> (Tensor, Tensor, Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(lazuli, CUDA, m) {
  m.impl("attention", attention);
  m.impl("attention_with_dropout", attention_with_dropout);
  m.impl("attention_backward", attention_backward);
}
TORCH_LIBRARY_IMPL(lazuli, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_with_dropout", attention_with_dropout_meta);
  m.impl("attention_backward", attention_backward_meta);
}

}  // namespace
}  // namespace lazuli::backend
