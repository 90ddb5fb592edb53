// Linear layers of int8 weights that quantize what they are given (quantized::linear_dynamic). The weights lie packed
// for a library; what it multiplies is taken out once, and kept as long as they are.
#include <mutex>
#include <unordered_map>
#include <ATen/ATen.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/torch_internals/packed_linear.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

struct DynamicWeights {
  c10::weak_intrusive_ptr<LinearPackedParamsBase> packed;  // so that nobody else has its address
  Tensor bytes, scales;                                    // [N, K]; of all of them, or of each row
  Tensor sums;                                             // of each row's bytes
  Tensor zeros;                                            // as the scales; undefined: they are 0
  Tensor bias, of;                                         // a copy, and of which tensor
  uint32_t version = 0;                                    // of that
};

Tensor to_device(const Tensor& t, at::ScalarType type) { return t.detach().to(lazy::device(), type); }

DynamicWeights unpacked_weights(const PackedLinear& packed) {
  const Tensor weight = weights_of(*packed);
  const Tensor bytes = weight.int_repr();
  const bool by_row = weight.qscheme() == at::kPerChannelAffine;
  const Tensor scales = by_row ? weight.q_per_channel_scales() : at::scalar_tensor(weight.q_scale(), at::kDouble);
  const Tensor zeros =
      by_row ? weight.q_per_channel_zero_points() : at::scalar_tensor(weight.q_zero_point(), at::kLong);
  const bool has_zeros = zeros.any().item<bool>();
  return {c10::weak_intrusive_ptr<LinearPackedParamsBase>(packed),
          to_device(bytes, at::kChar),
          to_device(scales, at::kFloat),
          to_device(bytes.sum(1, false, at::kInt), at::kInt),
          has_zeros ? to_device(zeros, at::kInt) : Tensor(),
          {},
          {}};
}

// Torch does not count the writes to what was made in inference mode.
bool is_copy_of(const DynamicWeights& weights, const Tensor& bias) {
  return weights.of.is_same(bias) && !bias.is_inference() && weights.version == bias._version();
}

DynamicWeights find_weights(const PackedLinear& packed) {
  static auto* const mutex = new std::mutex;
  static auto* const known = new std::unordered_map<LinearPackedParamsBase*, DynamicWeights>;
  std::lock_guard lock(*mutex);
  auto it = known->find(packed.get());
  if (it == known->end()) {
    std::erase_if(*known, [](const auto& entry) { return entry.second.packed.expired(); });
    it = known->emplace(packed.get(), unpacked_weights(packed)).first;
  }
  DynamicWeights& weights = it->second;
  const std::optional<Tensor> bias = bias_of(*packed);
  if (bias && bias->defined() && !is_copy_of(weights, *bias)) {
    weights.bias = to_device(*bias, at::kFloat), weights.of = *bias;
    if (!bias->is_inference()) weights.version = bias->_version();
  }
  return weights;
}

bool is_quantized_here(const Tensor& x, const PackedLinear& packed, bool half_range) {
  return lazy::backing().has_host_kernels && is_ours(x) && x.scalar_type() == at::kFloat && x.dim() >= 2 &&
         x.numel() > 0 && are_exact(*packed, half_range);
}

template <bool with_relu>
Tensor linear_dynamic(Tensor x, const PackedLinear& packed, bool half_range) {
  const auto otherwise = [&] {
    return fall_back<Tensor>(with_relu ? "quantized::linear_relu_dynamic" : "quantized::linear_dynamic", "", x, packed,
                             half_range);
  };
  if (!is_quantized_here(x, packed, half_range)) return otherwise();
  const DynamicWeights w = find_weights(packed);
  const int64_t depth = w.bytes.size(1), columns = w.bytes.size(0);
  if (x.size(-1) != depth) return otherwise();
  lazy::Recording r;
  ir::Dims shape = lazy::to_dims(x.sizes());
  const ir::Value rows = r.reshape(r.value(x), ir::Dims{x.numel() / depth, depth});
  const ir::Value bytes = r.emit(ir::Op::quantize_dynamic, {rows}, ir::Attrs().add(half_range ? 127 : 255));
  const ir::Value scale{bytes.node, 1}, zero{bytes.node, 2};
  // Of (bytes - zero) * (weights - zeros): integers, whose order is nothing to anybody.
  ir::Value sums = r.emit(ir::Op::int_mm, {bytes, r.permute(r.value(w.bytes), ir::Dims{1, 0})});
  sums = r.sub(sums, r.mul(r.value(w.sums), zero));
  if (w.zeros.defined()) {
    const ir::Value total = r.sum(r.convert(bytes, ir::DType::I32), ir::Dims{1}, true);
    sums = r.sub(sums, r.mul(r.sub(total, r.mul(zero, static_cast<double>(depth))), r.value(w.zeros)));
  }
  sums = r.convert(sums, ir::DType::F32);
  const ir::Value scales = r.mul(r.value(w.scales), scale);
  ir::Value y = w.bias.defined() ? r.emit(ir::Op::multiply_add, {sums, scales, r.value(w.bias)}) : r.mul(sums, scales);
  if (with_relu) y = r.emit(ir::Op::relu, {y});
  shape.back() = columns;
  return r.tensor(r.reshape(y, shape), at::kFloat);
}

TORCH_LIBRARY_IMPL(quantized, PrivateUse1, m) {
  if (lazy::is_reference_mode()) return;
  m.impl("linear_dynamic", linear_dynamic<false>);
  m.impl("linear_relu_dynamic", linear_dynamic<true>);
}

}  // namespace
}  // namespace lazuli::backend
