// Scaled dot-product attention of float32 on the CPU is a row. So is that of 16 bits for a few queries where no
// gradient is wanted: then reading keys and values is all it costs. Otherwise it goes to the backing device's fused
// kernel, as one external call. What neither covers is torch's decomposition into products and softmax.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>
#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include "backend/device/generator.h"
#include "backend/device/gpu_generator.h"
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

// [batch, heads, rows, columns] as the row and eager's gradients have it in memory.
const lazy::Order kHeadsLast{0, 2, 1, 3};

// What the row takes of this type, of what eager's kernel takes; heads may share keys.
bool is_row(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask,
            at::ScalarType type = at::kFloat) {
  if (lazy::backing().has_fused_attention) return false;
  for (const Tensor* t : {&q, &k, &v})
    if (!is_ours(*t) || t->dim() != 4 || t->scalar_type() != type || t->numel() == 0) return false;
  const bool fits =
      q.size(0) == k.size(0) && q.size(3) == k.size(3) && k.sizes() == v.sizes() && q.size(1) % k.size(1) == 0;
  if (!fits || !mask || !mask->defined()) return fits;
  if (!is_ours(*mask) || mask->requires_grad() || (mask->dim() != 2 && mask->dim() != 4)) return false;
  if (mask->scalar_type() != type && mask->scalar_type() != at::kBool) return false;
  const std::array<int64_t, 4> scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  for (int64_t d = 1; d <= mask->dim(); ++d)
    if (mask->size(-d) != 1 && mask->size(-d) != scores[static_cast<size_t>(4 - d)]) return false;
  return true;
}

// The row computes in float32, from copies of keys and values.
bool is_row_of_few_queries(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask) {
  constexpr int64_t kFewQueries = 4;
  const bool wanted = at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
  return at::isReducedFloatingType(q.scalar_type()) && !wanted && q.dim() == 4 && q.size(2) <= kFewQueries &&
         is_row(q, k, v, mask, q.scalar_type());
}

ir::Attrs attributes(const Tensor& q, optional<double> scale, bool causal) {
  return ir::Attrs()
      .add(std::bit_cast<int64_t>(scale.value_or(1 / std::sqrt(static_cast<double>(q.size(3))))))
      .add(causal);
}

// What is added to scores, of four dimensions: of a boolean mask 0, and -inf where it is false.
ir::Value mask_value(lazy::Recording& r, const optional<Tensor>& mask) {
  if (!mask || !mask->defined()) return {};
  ir::Value m = r.value(*mask);
  if (mask->scalar_type() == at::kBool)
    m = r.emit(ir::Op::where, {m, r.constant(0.0, ir::DType::F32),
                               r.constant(-std::numeric_limits<double>::infinity(), ir::DType::F32)});
  m = r.convert(m, ir::DType::F32);
  return mask->dim() == 4 ? m : r.reshape(m, ir::Dims{1, 1, mask->size(0), mask->size(1)});
}

std::array<Tensor, 2> row(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, bool causal,
                          optional<double> scale) {
  lazy::Recording r;
  // In the order in which they lie: whole caches of keys and values may be converted.
  const auto wide = [&](const Tensor& t) {
    if (t.scalar_type() == at::kFloat || t.stride(1) < t.stride(2))
      return r.convert(r.value(t, kHeadsLast), ir::DType::F32);
    return r.permute(r.convert(r.value(t), ir::DType::F32), kHeadsLast);
  };
  const ir::Value y =
      r.emit(ir::Op::attention, {wide(q), wide(k), wide(v), mask_value(r, mask)}, attributes(q, scale, causal));
  const ir::Value narrow = r.convert(r.permute(y, kHeadsLast), lazy::to_ir(q.scalar_type()));
  // Eager's result lies as the queries do.
  const Operands queries{{&q}};
  const Tensor out = tensor_in(r, narrow, q.scalar_type(), result_order(queries, lazy::to_dims(q.sizes())));
  q.is_non_overlapping_and_dense() ? take_strides_like(out, q) : take_strides_of_ones(out, queries);
  return {out, r.tensor(y.next(), at::kFloat)};
}

std::array<Tensor, 3> row_backward(const Tensor& gy, const Tensor& q, const Tensor& k, const Tensor& v,
                                   const Tensor& out, const Tensor& statistics, const optional<Tensor>& mask,
                                   bool causal, optional<double> scale) {
  lazy::Recording r;
  const auto by_row = [&](const Tensor& t) { return r.convert(r.value(t, kHeadsLast), ir::DType::F32); };
  const ir::Value g =
      r.emit(ir::Op::attention_backward,
             {by_row(gy), by_row(q), by_row(k), by_row(v), by_row(out), r.value(statistics), mask_value(r, mask)},
             attributes(q, scale, causal));
  const auto result = [&](uint32_t i, const Tensor& of) {
    const Tensor t = r.tensor(r.convert(g.next(i), lazy::to_ir(of.scalar_type())), of.scalar_type(), kHeadsLast);
    const int64_t rows = of.size(2), heads = of.size(1), columns = of.size(3);
    take_strides(t, ir::Dims{rows * heads * columns, columns, heads * columns, 1});
    return t;
  };
  return {result(0, q), result(1, k), result(2, v)};
}

// Whether a fused kernel drops weights at places of our choice. It borrows the GPU's default generator for that: no
// other thread draws from it meanwhile if nobody ever did.
bool drops_on_gpu(const Tensor& q) {
  constexpr int64_t kMostColumns = 192;  // beyond, no derivative on some GPUs
  return q.sym_size(3) <= kMostColumns && !draws_as_eager() && is_gpu_generator_unused();
}

// What the fused kernels of a GPU take: four dimensions of which the last is innermost, one type of at most 32 bits,
// rows of 16 bytes. A tensor of a graph that is being traced may have symbolic sizes.
bool is_fused_on_gpu(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, double dropout,
                     bool causal) {
  const auto is_walked = [](const Tensor& t) { return t.sym_size(-1) <= 1 || t.sym_stride(-1) == 1; };
  for (const Tensor* t : {&q, &k, &v})
    if (!is_ours(*t) || t->dim() != 4 || !c10::isFloatingType(t->scalar_type()) ||
        t->scalar_type() != q.scalar_type() || t->sym_numel() == 0 || !is_walked(*t))
      return false;
  if (mask && mask->defined()) {
    const bool walks = mask->dim() == 0 || is_walked(*mask) || mask->sym_stride(-1) == 0;
    if (!walks || causal || (mask->scalar_type() != at::kBool && mask->scalar_type() != q.scalar_type())) return false;
  }
  const int64_t lane = 16 / static_cast<int64_t>(q.itemsize());
  if (q.scalar_type() == at::kDouble || q.sym_size(3) % lane != 0) return false;
  if (dropout != 0.0 && !drops_on_gpu(q)) return false;
  return q.sym_size(0) == k.sym_size(0) && q.sym_size(1) == k.sym_size(1) && k.sym_sizes() == v.sym_sizes() &&
         q.sym_size(3) == k.sym_size(3);
}

// Fused kernels of a GPU read a bias in vectors: its rows lie in memory at multiples of 16 elements. What makes the
// bias writes it so, once for forward and backward. What is repeated along a dimension is written once, but where each
// element has a gradient of its own.
optional<Tensor> with_whole_vectors(const optional<Tensor>& bias, const Tensor& k, bool has_gradient = false) {
  constexpr int64_t kVector = 16;
  const int64_t keys = k.size(2), missing = (kVector - keys % kVector) % kVector;
  if (!bias || !bias->defined()) return std::nullopt;
  std::vector<int64_t> sizes = bias->sizes().vec();
  if (sizes.empty()) sizes.push_back(keys);
  sizes.back() = keys;  // a row may be one number
  Tensor rows = bias->expand(sizes);
  for (int64_t d = 0; d + 1 < rows.dim() && !has_gradient; ++d)
    if (rows.stride(d) == 0 && rows.size(d) > 1) rows = rows.narrow(d, 0, 1);
  return missing ? at::constant_pad_nd(rows, {0, missing}) : rows.contiguous();
}

// What eager would choose on the host: it looks at sizes, strides and settings, not at numbers. It asks for a mask
// whose last dimension is the innermost in memory, but not on the host.
int64_t host_choice(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask, double dropout,
                    bool causal, optional<double> scale, bool gqa) {
  optional<Tensor> dense = mask;
  if (mask && mask->defined() && mask->dim() > 0 && mask->sym_stride(-1) != 1)
    dense =
        at::empty_symint(mask->sym_sizes(), mask->options().device(at::kMeta)).set_requires_grad(mask->requires_grad());
  return at::_ops::_fused_sdp_choice::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), q, k, v, dense, dropout,
                                                 causal, scale, gqa);
}

// Whether a graph that this thread traces is for the device.
thread_local bool keeps_attention = false;

// The order is the one of aten's function table: (out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, seed, offset,
// mask). In logsumexp's place the row has statistics, which its own derivative reads.
using Attention = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Attention attention(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& bias, double dropout,
                    bool causal, bool, optional<double> scale) {
  if (lazy::backing().has_fused_attention && dropout != 0) {
    // At most, from the next multiple of 4 on: for each weight a number, or 32 for each matrix of weights.
    const int64_t drawn = q.size(0) * q.size(1) * std::max<int64_t>(q.size(2) * k.size(2), 32) + 3;
    const Generator::Draw from = generator_of(std::nullopt).draw(drawn);
    auto [out, lse, dropped] =
        fall_back_tuple<3>("lazuli::attention_with_dropout", "", q, k, v, with_whole_vectors(bias, k), dropout, causal,
                           scale, from.seed, from.offset, drawn);
    return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), dropped, Tensor(), Tensor()};
  }
  if (lazy::backing().has_fused_attention) {
    auto [out, lse] = fall_back_tuple<2>("lazuli::attention", "", q, k, v, with_whole_vectors(bias, k), causal, scale);
    return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), Tensor(), Tensor(), Tensor()};
  }
  if (dropout == 0 && (is_row(q, k, v, bias) || is_row_of_few_queries(q, k, v, bias))) {
    auto [out, statistics] = row(q, k, v, bias, causal, scale);
    return {out, statistics, Tensor(), Tensor(), q.size(2), k.size(2), Tensor(), Tensor(), Tensor()};
  }
  auto [out, lse] = fall_back_tuple<2>("aten::_scaled_dot_product_flash_attention_for_cpu", "", q, k, v, dropout,
                                       causal, bias, scale);
  return {out, lse, Tensor(), Tensor(), q.size(2), k.size(2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& gy, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, std::array<bool, 4> wanted,
    const Tensor& out, const Tensor& lse, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout,
    bool causal, const Tensor& dropped, const Tensor&, optional<double> scale) {
  optional<Tensor> mask = bias.defined() ? optional<Tensor>(bias) : std::nullopt;
  if (lazy::backing().has_fused_attention) {
    const optional<Tensor> state = dropout != 0 ? optional<Tensor>(dropped) : std::nullopt;
    auto [gq, gk, gv, gb] =
        fall_back_tuple<4>("lazuli::attention_backward", "", gy, q, k, v, out, lse,
                           with_whole_vectors(mask, k, wanted[3]), mask && wanted[3], causal, scale, state, dropout);
    if (!mask || !wanted[3]) return {gq, gk, gv, Tensor()};
    return {gq, gk, gv, gb.sum_to_size(bias.sizes())};
  }
  // The row's statistics are two numbers for each row of scores. A graph of torch.compile does not say in its forward
  // whether a gradient is wanted, so the row may have served it whatever the type.
  if (constexpr int64_t kOfRow = 4; lse.dim() == kOfRow) {
    auto [gq, gk, gv] = row_backward(gy, q, k, v, out, lse, mask, causal, scale);
    return {gq, gk, gv, Tensor()};
  }
  auto [gq, gk, gv] = fall_back_tuple<3>("aten::_scaled_dot_product_flash_attention_for_cpu_backward", "", gy, q, k, v,
                                         out, lse, dropout, causal, mask, scale);
  return {gq, gk, gv, Tensor()};
}

}  // namespace

void register_attention(torch::Library& m) {
  m.impl("_scaled_dot_product_fused_attention_overrideable", attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

int64_t attention_choice(const Tensor& q, const Tensor& k, const Tensor& v, const optional<Tensor>& mask,
                         double dropout, bool causal, optional<double> scale, bool gqa) {
  const bool on_gpu = lazy::backing().has_fused_attention;
  // Torch then calls the host's kernel by its own operator, with that one's derivative.
  if (lazy::is_reference_mode() && lazy::backing().has_host_kernels)
    return host_choice(q, k, v, mask, dropout, causal, scale, gqa);
  // In graphs that others take, attention is made of operators that they know.
  if (q.key_set().has(c10::DispatchKey::Python) && !keeps_attention) return static_cast<int64_t>(sdp::SDPBackend::math);
  const auto is_there = [](const Tensor& t) { return !t.defined() || is_ours(t); };
  const bool are_ours = is_ours(q) && is_ours(k) && is_ours(v) && is_there(mask.value_or(Tensor()));
  // Where eager takes products and softmax apart, its result lies otherwise, too.
  const bool is_fused = on_gpu ? !gqa && is_fused_on_gpu(q, k, v, mask, dropout, causal)
                               : are_ours && host_choice(q, k, v, mask, dropout, causal, scale, gqa) ==
                                                 static_cast<int64_t>(sdp::SDPBackend::flash_attention);
  auto choice = is_fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math;
  return static_cast<int64_t>(choice);
}

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  m.def("_keep_attention(bool keep) -> bool", [](bool keep) { return std::exchange(keeps_attention, keep); });
}

}  // namespace lazuli::backend

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &lazuli::backend::attention_choice)
}
