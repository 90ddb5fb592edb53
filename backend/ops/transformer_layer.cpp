// Torch's fast path for inference of `nn.MultiheadAttention` and `nn.TransformerEncoderLayer`: one operator each, which
// is written in others here, so that the trace fuses them.
#include <cmath>
#include <limits>
#include <ATen/ATen.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

// A tensor of the device, of these sizes and of the same real type as another.
bool fits(const Tensor& t, const Tensor& like, at::IntArrayRef sizes) {
  return is_floating(t) && t.scalar_type() == like.scalar_type() && t.sizes() == sizes;
}

// Which positions a mask is for.
enum MaskType : int64_t { OfScores = 0, OfKeys = 1, Whole = 2 };  // [rows, keys], [batch, keys], all four dimensions

struct Heads {
  Tensor query, key, value;
  int64_t embedding, count;
  Tensor weight, bias, out_weight, out_bias;
  optional<Tensor> mask;
  optional<int64_t> mask_type;

  bool masks() const { return mask && mask->defined(); }
  bool is_self_attention() const { return query.is_same(key) && key.is_same(value); }
  int64_t batch() const { return query.size(0); }
  int64_t rows() const { return query.size(1); }  // and keys

  // Whether that is all there is to it. What else there may be, and what is wrong, is for torch's operator.
  bool is_plain() const {
    if (!is_floating(query) || query.dim() != 3 || query.numel() == 0 || count <= 0 || embedding % count != 0)
      return false;
    const int64_t e = embedding;
    const bool given = fits(key, query, query.sizes()) && fits(value, query, query.sizes()) && query.size(2) == e &&
                       fits(weight, query, {3 * e, e}) && fits(bias, query, {3 * e}) &&
                       fits(out_weight, query, {e, e}) && fits(out_bias, query, {e});
    return given && (!masks() || is_plain_mask());
  }
  bool is_plain_mask() const {
    if (!is_ours(*mask) || !mask_type) return false;
    switch (*mask_type) {
      case OfScores:
        return mask->sizes() == at::IntArrayRef{rows(), rows()};
      case OfKeys:
        return mask->sizes() == at::IntArrayRef{batch(), rows()};
      case Whole:
        return mask->sizes() == at::IntArrayRef{batch(), count, rows(), rows()};
      default:
        return false;
    }
  }

  // [batch, heads, rows, numbers] of queries, keys and values.
  std::vector<Tensor> projections() const {
    const auto split = [&](const Tensor& x, int64_t pieces) {
      return x.view({batch(), rows(), pieces, count, embedding / count}).permute({2, 0, 3, 1, 4}).unbind();
    };
    if (is_self_attention()) return split(at::linear(query, weight, bias), 3);
    std::vector<Tensor> out;
    const std::vector<Tensor> weights = weight.chunk(3), biases = bias.chunk(3);
    for (size_t i = 0; const Tensor* x : {&query, &key, &value}) {
      out.push_back(split(at::linear(*x, weights[i], biases[i]), 1)[0]);
      ++i;
    }
    return out;
  }
  // The mask where scores are, true where nobody may look. As in eager, numbers are not added but taken for truths.
  Tensor closed() const {
    const Tensor truths = mask->to(at::kBool);
    if (*mask_type == OfKeys) return truths.view({batch(), 1, 1, rows()});
    return *mask_type == OfScores ? truths.view({1, 1, rows(), rows()}) : truths;
  }
  Tensor joined(const Tensor& heads) const {
    return at::linear(heads.transpose(1, 2).reshape({batch(), rows(), embedding}), out_weight, out_bias);
  }

  // Eager gives nan where no key is open; fused attention gives zero.
  Tensor output() const {
    const std::vector<Tensor> x = projections();
    if (!masks()) return joined(at::scaled_dot_product_attention(x[0], x[1], x[2]));
    const Tensor shut = closed();
    const Tensor open = shut.logical_not().expand({batch(), shut.size(1), rows(), rows()});
    const Tensor heads = at::scaled_dot_product_attention(x[0], x[1], x[2], open);
    return joined(heads.masked_fill(shut.all(-1, true), std::numeric_limits<double>::quiet_NaN()));
  }
  std::tuple<Tensor, Tensor> output_and_weights(bool average) const {
    const std::vector<Tensor> x = projections();
    Tensor scores = (x[0] / std::sqrt(static_cast<double>(embedding / count))).matmul(x[1].transpose(2, 3));
    if (masks()) scores = scores.masked_fill(closed(), -std::numeric_limits<double>::infinity());
    const Tensor weights = scores.softmax(-1);
    return {joined(weights.matmul(x[2])), average ? weights.mean(1) : weights};
  }
};

std::tuple<Tensor, Tensor> multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                                int64_t embedding, int64_t heads, const Tensor& weight,
                                                const Tensor& bias, const Tensor& out_weight, const Tensor& out_bias,
                                                const optional<Tensor>& mask, bool need_weights, bool average,
                                                optional<int64_t> mask_type) {
  const Heads h{query, key, value, embedding, heads, weight, bias, out_weight, out_bias, mask, mask_type};
  if (!h.is_plain())
    return fall_back_tuple<2>("aten::_native_multi_head_attention", "", query, key, value, embedding, heads, weight,
                              bias, out_weight, out_bias, mask, need_weights, average, mask_type);
  if (need_weights) return h.output_and_weights(average);
  return {h.output(), Tensor()};
}

struct Norm {
  Tensor weight, bias;
  double eps;
  Tensor operator()(const Tensor& x) const { return at::layer_norm(x, weight.sizes(), weight, bias, eps); }
  bool is_plain(const Tensor& x) const {
    return fits(weight, x, x.sizes().slice(2)) && fits(bias, x, x.sizes().slice(2));
  }
};

struct FeedForward {
  Tensor weight_1, bias_1, weight_2, bias_2;
  bool gelu;
  Tensor operator()(const Tensor& x) const {
    const Tensor hidden = at::linear(x, weight_1, bias_1);
    return at::linear(gelu ? at::gelu(hidden) : at::relu(hidden), weight_2, bias_2);
  }
  bool is_plain(const Tensor& x) const {
    if (!weight_1.defined() || weight_1.dim() != 2) return false;
    const int64_t e = x.size(2), hidden = weight_1.size(0);
    return hidden > 0 && fits(weight_1, x, {hidden, e}) && fits(bias_1, x, {hidden}) &&
           fits(weight_2, x, {e, hidden}) && fits(bias_2, x, {e});
  }
};

Tensor encoder_layer(const Tensor& src, int64_t embedding, int64_t heads, const Tensor& weight, const Tensor& bias,
                     const Tensor& out_weight, const Tensor& out_bias, bool gelu, bool norm_first, double eps,
                     const Tensor& norm_weight_1, const Tensor& norm_bias_1, const Tensor& norm_weight_2,
                     const Tensor& norm_bias_2, const Tensor& ffn_weight_1, const Tensor& ffn_bias_1,
                     const Tensor& ffn_weight_2, const Tensor& ffn_bias_2, const optional<Tensor>& mask,
                     optional<int64_t> mask_type) {
  const Norm norm_1{norm_weight_1, norm_bias_1, eps}, norm_2{norm_weight_2, norm_bias_2, eps};
  const FeedForward feed{ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, gelu};
  const auto attention = [&](const Tensor& x) {
    return Heads{x, x, x, embedding, heads, weight, bias, out_weight, out_bias, mask, mask_type};
  };
  if (!attention(src).is_plain() || !norm_1.is_plain(src) || !norm_2.is_plain(src) || !feed.is_plain(src))
    return fall_back<Tensor>("aten::_transformer_encoder_layer_fwd", "", src, embedding, heads, weight, bias,
                             out_weight, out_bias, gelu, norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2,
                             norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type);
  if (norm_first) {
    const Tensor x = attention(norm_1(src)).output() + src;  // the former's strides
    return x + feed(norm_2(x));
  }
  const Tensor x = norm_1(attention(src).output() + src);
  return norm_2(x + feed(x));
}

}  // namespace

void register_transformer_layer(torch::Library& m) {
  m.impl("_native_multi_head_attention", multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", encoder_layer);
}

}  // namespace lazuli::backend
