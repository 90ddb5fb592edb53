// Chooses who computes a convolution or one of its gradients, and in which layouts.
#include <algorithm>
#include <array>
#include <ranges>
#include <stdexcept>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/convolution/depthwise.h"
#include "lowering/libraries/convolution/direct_convolution.h"
#include "lowering/libraries/convolution/implicit_gemm.h"
#include "lowering/libraries/convolution/patch_convolution.h"
#include "lowering/libraries/convolution/winograd.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/staged_call.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using onednn::Convolution;
using onednn::Inner;
using onednn::Pass;

void check_operands(const Convolution& c, const ConvolutionParams& params) {
  const size_t rank = c.x.shape.size(), spatial = rank - 2;
  bool fits = rank >= 3 && rank <= 5 && c.w.shape.size() == rank && c.y.shape.size() == rank && params.groups >= 1;
  for (const ir::Dims* d : {&params.stride, &params.padding, &params.dilation}) fits = fits && d->size() == spatial;
  fits = fits && c.x.shape[0] == c.y.shape[0] && c.w.shape[0] == c.y.shape[1] &&
         c.x.shape[1] == c.w.shape[1] * params.groups && c.w.shape[0] % params.groups == 0;
  for (size_t d = 2; fits && d < rank; ++d) {
    const int64_t room = c.x.shape[d] + 2 * c.padding[d - 2] - c.dilation[d - 2] * (c.w.shape[d] - 1) - 1;
    // A transposed convolution's result, our x, may be larger than what the exact formula gives back.
    const int64_t out = room >= 0 ? room / c.stride[d - 2] + 1 : ir::Size(0);
    fits = c.y.shape[d] == out || (params.transposed && c.y.shape[d] <= out);
  }
  if (!fits) throw TypeError("convolution: the operands' shapes do not fit");
}

// x, w and y of the plain convolution that this pass belongs to: a transposed one is the input gradient of the plain
// one that maps its result to its input.
Convolution plain(Pass pass, const Layout& x, const Layout& w, const Layout& y, const ConvolutionParams& params) {
  Convolution c{pass, x, w, y, params.stride, params.padding, params.dilation, params.groups, false};
  if (params.transposed) {
    std::swap(c.x, c.y);
    if (pass == Pass::Forward) c.pass = Pass::InputGrad;
    if (pass == Pass::InputGrad) c.pass = Pass::Forward;
    if (pass == Pass::WeightGrad) c.swapped = true;
  }
  check_operands(c, params);
  return c;
}

Layout& result_of(Convolution& c) { return c.pass == Pass::Forward ? c.y : c.pass == Pass::InputGrad ? c.x : c.w; }
// The operands in the order in which the call takes them.
std::array<Layout*, 2> operands_of(Convolution& c) {
  if (c.pass == Pass::Forward) return {&c.x, &c.w};
  if (c.pass == Pass::InputGrad) return {&c.y, &c.w};
  return c.swapped ? std::array{&c.x, &c.y} : std::array{&c.y, &c.x};
}

bool same_strides(const Layout& a, const Layout& b) {
  return with_canonical_strides(a).strides == with_canonical_strides(b).strides;
}
bool channels_last(const Layout& l) { return same_strides(l, channels_last_layout(l.dtype, l.shape)); }
bool row_major(const Layout& l) { return same_strides(l, dense_layout(l.dtype, l.shape)); }
// Some channels of a channels-last image, or all: those of a point lie side by side.
bool has_channels_together(const Layout& l) {
  const Layout c = with_canonical_strides(l);
  for (size_t d = 0; d < c.shape.size(); ++d)
    if (d == 1 ? c.strides[d] != 1 : c.strides[d] < c.shape[1]) return false;
  return true;
}

// The layout to compute in: channels-last wins by far where either side has it already. Row-major operands are
// reordered to whatever the implementation likes, except where reordering costs more than oneDNN's GEMM on row-major
// operands does. Measured by `tools/bench libraries`.
Inner inner_for(const Convolution& c) {
  const bool ambiguous = row_major(c.x) && row_major(c.y);
  if (!ambiguous && (channels_last(c.x) || channels_last(c.y))) return Inner::ChannelsLast;
  const bool pointwise = ir::product(std::span(c.w.shape.data() + 2, c.w.shape.size() - 2)) == 1 && c.groups == 1;
  const bool few_channels = c.x.shape[1] <= 4 && c.pass == Pass::InputGrad;
  const bool dense_bf16 = c.y.dtype == DType::BF16 && c.pass == Pass::Forward && ir::product(c.stride) == 1;
  return (pointwise && c.pass != Pass::WeightGrad && !dense_bf16) || few_channels ? Inner::Given : Inner::Best;
}

std::unique_ptr<LibraryCall> onednn_convolution(const Convolution& given, std::span<const PostOp> ops,
                                                bool ops_inside) {
  Convolution c = given;
  Staging staging;
  const auto stage = [](Layout& l) -> std::optional<Staging::Copy> {
    const DType type = onednn::supports(l.dtype) ? l.dtype : DType::F32;
    if (l.dtype == type && row_major(l)) return l = dense_layout(type, l.shape), std::nullopt;
    if (l.dtype == type && channels_last(l)) return l = channels_last_layout(type, l.shape), std::nullopt;
    const Layout before = l;
    const bool last = has_channels_together(l);
    return Staging::Copy{before, l = last ? channels_last_layout(type, l.shape) : dense_layout(type, l.shape)};
  };
  for (Layout* l : operands_of(c)) staging.operands.push_back(stage(*l));
  const Layout before = result_of(c);
  if (stage(result_of(c))) staging.result = {result_of(c), before};
  for (const PostOp& op : ops)
    if (has_operand(op)) {
      if (ops_inside && (!onednn::supports(op.operand.dtype) || !packed_like(op.operand, op.operand))) return nullptr;
      staging.operands.push_back({});
    }
  if (!ops_inside) {
    // Of bfloat16 only what the post-ops give is rounded.
    if (before.dtype == DType::BF16) {
      result_of(c).dtype = DType::F32;
      staging.result = {result_of(c), before};
    }
    staging.post_ops = broadcast_post_ops(ops, given.pass == Pass::InputGrad ? given.x.shape : given.y.shape);
    staging.result_layout = result_of(c);
    staging.post_op_operands_at = 2;
    ops = {};
  }
  const Inner inner = inner_for(c);
  auto call = onednn::convolution(c, ops, inner);
  if (!call && inner != Inner::Best) call = onednn::convolution(c, ops, Inner::Best);
  return make_staged_call(std::move(call), std::move(staging));
}

// Whether our own convolution does these as well as a kernel would.
bool are_ours(std::span<const PostOp> ops) {
  return std::ranges::all_of(ops, [](const PostOp& op) { return !has_operand(op) || op.operand.dtype == DType::F32; });
}

// Whether it makes many channels of 3 x 3 taps of one image: the beginning of a network.
bool is_thin(const Convolution& c, int64_t taps) {
  return c.pass == Pass::Forward && c.x.shape.size() == 4 && c.x.shape[0] == 1 && c.w.shape[1] <= 3 && taps == 9 &&
         c.w.shape[0] >= 48;
}

// Whether our own convolution is the fastest, by `tools/bench libraries`. Making oneDNN's takes half a
// millisecond or more. With AVX-512 oneDNN's takes 1.4 times as long for one image of three channels with 3 x 3 taps.
// On processors without AVX-512 ours is also faster at gradients, of more than one tap for weights, and with a stride
// for inputs; but each thread copies the whole image for its part of the weights.
bool is_for_implicit_gemm(const Convolution& c, std::span<const PostOp> ops, Effort effort) {
  constexpr int64_t kLarge = 1 << 28;    // products, at which oneDNN wins that back with AVX-512
  constexpr int64_t kWorthCopying = 40;  // products of an element and thread
  if (!serves_implicit_gemm(c) || !are_ours(ops)) return false;
  const int64_t taps = ir::product(std::span(c.w.shape.data() + 2, c.w.shape.size() - 2));
  const bool wide = host_instruction_set() == InstructionSet::Avx512;
  if (effort == Effort::Little) return !wide || ir::product(c.y.shape) * c.w.shape[1] * taps < kLarge;
  if (wide) return is_thin(c, taps);
  if (c.pass == Pass::InputGrad) return ir::product(c.stride) > 1;
  return c.pass == Pass::WeightGrad && taps > 1 && taps * c.y.shape[1] >= kWorthCopying * crew_size();
}

// The same of our own depthwise convolution. oneDNN makes sums of small products, one after the other, of gradients by
// weights but those of 3 x 3 taps.
bool is_for_depthwise(const Convolution& c, std::span<const PostOp> ops, Effort effort) {
  if (!ops.empty() && (c.pass != Pass::Forward || !are_ours(ops))) return false;
  const std::span<const ir::Size> taps(c.w.shape.data() + 2, c.w.shape.size() - 2);
  const bool is_slow = c.pass == Pass::WeightGrad && !(taps.size() == 2 && taps[0] == 3 && taps[1] == 3);
  return (effort == Effort::Little || is_slow) && serves_depthwise(c);
}

// Makes it channels-last. What is copied for that.
std::optional<Staging::Copy> stage_channels_last(Layout& l) {
  const Layout before = l;
  l = channels_last_layout(l.dtype, l.shape);
  return same_strides(before, l) ? std::optional<Staging::Copy>() : Staging::Copy{before, l};
}

std::unique_ptr<LibraryCall> implicit_gemm(const Convolution& given, std::span<const PostOp> ops,
                                           bool takes_packed = false) {
  Convolution c = given;
  Staging staging;
  for (Layout* l : operands_of(c)) staging.operands.push_back(l == &c.w ? std::nullopt : stage_channels_last(*l));
  const Layout before = result_of(c);
  if (c.pass != Pass::WeightGrad && stage_channels_last(result_of(c))) staging.result = {result_of(c), before};
  staging.operands.resize(2 + static_cast<size_t>(std::ranges::count_if(ops, has_operand)));
  if (c.pass != Pass::Forward) {
    staging.post_ops = broadcast_post_ops(ops, before.shape);
    staging.result_layout = result_of(c);
    staging.post_op_operands_at = 2;
    ops = {};
  }
  return make_staged_call(make_implicit_gemm(c, ops, takes_packed), std::move(staging));
}

// A convolution of single points is a product: oneDNN's convolutions of so few points are several times slower. What
// follows has its operands in the product's shape.
struct PointProduct {
  Layout a, b, out;
  std::vector<PostOp> ops;
};
std::optional<PointProduct> point_product(const Convolution& c, std::span<const PostOp> ops, Effort effort) {
  if (effort != Effort::Much || c.pass != Pass::Forward || c.groups != 1) return {};
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (l->dtype != DType::F32 || ir::product(std::span(l->shape.data() + 2, l->shape.size() - 2)) != 1) return {};
  const auto of_matrix = [](const Layout& l, size_t rows, size_t columns) {
    return Layout{l.dtype, {l.shape[rows], l.shape[columns]}, {l.strides[rows], l.strides[columns]}};
  };
  PointProduct p{of_matrix(c.x, 0, 1), of_matrix(c.w, 1, 0), of_matrix(c.y, 0, 1), broadcast_post_ops(ops, c.y.shape)};
  for (PostOp& op : p.ops)
    if (has_operand(op)) op.operand = of_matrix(op.operand, 0, 1);
  return p;
}

std::unique_ptr<LibraryCall> any_convolution(Convolution c, std::span<const PostOp> ops, Effort effort) {
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (ir::product(l->shape) == 0) return make_zero_call(result_of(c), ops, 2);
  if (const auto p = point_product(c, ops, effort)) return make_matmul(p->a, p->b, p->out, p->ops, effort);
  if (c.y.dtype != DType::F64 && ir::is_floating(c.y.dtype)) {
    if (ops.empty())
      if (auto call = make_patch_convolution(c, effort)) return call;
    if (is_for_implicit_gemm(c, ops, effort)) return implicit_gemm(c, ops);
    if (is_for_depthwise(c, ops, effort)) return make_depthwise(c, ops);
    // oneDNN takes post-ops on the forward pass only.
    if (c.pass == Pass::Forward || ops.empty())
      if (auto call = onednn_convolution(c, ops, true)) return call;
    if (!ops.empty())
      if (auto call = onednn_convolution(c, ops, false)) return call;
  }
  Staging rest;  // the direct loops apply post-ops to y only
  if (c.pass == Pass::Forward || ops.empty()) return make_direct_convolution(c, ops);
  rest.operands.resize(2);
  for (const PostOp& op : ops)
    if (has_operand(op)) rest.operands.push_back({});
  rest.post_ops = broadcast_post_ops(ops, result_of(c).shape);
  rest.result_layout = result_of(c);
  rest.post_op_operands_at = 2;
  return make_staged_call(make_direct_convolution(c, {}), std::move(rest));
}

}  // namespace

std::unique_ptr<LibraryCall> make_convolution(const Layout& x, const Layout& w, const Layout& out,
                                              const ConvolutionParams& params, std::span<const PostOp> post_ops,
                                              Effort effort) {
  return any_convolution(plain(Pass::Forward, x, w, out, params), post_ops, effort);
}

namespace {

// Multiplies weights by one number for each channel of the result, and packs what that gives.
class ScaledPack final : public LibraryCall {
 public:
  ScaledPack(const Layout& w, std::shared_ptr<LibraryCall> pack)
      : channels_(w.shape[0]), weights_(ir::product(w.shape) / w.shape[0]), pack_(std::move(pack)) {}
  void run(const void* const* operands, void* const* results, void* scratch) override {
    const auto *w = static_cast<const float*>(operands[0]), *factor = static_cast<const float*>(operands[1]);
    auto* scaled = static_cast<float*>(scratch);
    share_out(channels_, channels_ * weights_ > 64 * 1024, [&](int64_t begin, int64_t end, int) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t i = c * weights_; i < (c + 1) * weights_; ++i) scaled[i] = w[i] * factor[c];
    });
    const void* given = scaled;
    pack_->run(&given, results, static_cast<char*>(scratch) + bytes());
  }
  size_t scratch_bytes() const override { return bytes() + pack_->scratch_bytes(); }
  bool depends_on_threads() const override { return pack_->depends_on_threads(); }
  std::string describe() const override { return "scaled " + pack_->describe(); }

 private:
  size_t bytes() const { return round_up_64(static_cast<size_t>(channels_ * weights_) * sizeof(float)); }
  int64_t channels_, weights_;  // weights of a channel, side by side
  std::shared_ptr<LibraryCall> pack_;
};

// Whether the convolution's weights may be multiplied by the op's operand in place of its result.
bool is_factor(const Convolution& c, const PostOp& op) {
  if (op.kind != PostOp::Mul || !op.steady || c.pass != Pass::Forward || c.w.dtype != DType::F32 ||
      op.operand.dtype != DType::F32 || !is_per_channel(op.operand, c.y.shape))
    return false;
  const Layout w = with_canonical_strides(c.w);
  return packed_like(w, w) && (w.shape[0] == 1 || w.strides[0] == ir::product(w.shape) / w.shape[0]);
}

bool takes_winograd(const Convolution& c, std::span<const PostOp> ops, Effort effort) {
  return effort == Effort::Much && has_channels_together(c.x) && channels_last(c.y) && are_ours(ops) &&
         is_for_winograd(c);
}

// A call behind copies that another one owns.
class SharedCall final : public LibraryCall {
 public:
  explicit SharedCall(std::shared_ptr<LibraryCall> call) : call_(std::move(call)) {}
  void run(const void* const* operands, void* const* results, void* scratch) override {
    call_->run(operands, results, scratch);
  }
  size_t scratch_bytes() const override { return call_->scratch_bytes(); }
  bool depends_on_threads() const override { return call_->depends_on_threads(); }
  std::string describe() const override { return call_->describe(); }

 private:
  std::shared_ptr<LibraryCall> call_;
};

PackedCall pack_as_it_is(const Convolution& c, std::span<const PostOp> post_ops, Effort effort) {
  if (takes_winograd(c, post_ops, effort)) {
    PackedCall p = pack_for_winograd(c);
    p.call = make_winograd(c, post_ops);
    return p;
  }
  if (c.pass == Pass::Forward && !row_major(c.x) && !channels_last(c.x) && has_channels_together(c.x)) {
    Convolution dense = c;
    Staging staging;
    staging.operands = {stage_channels_last(dense.x), std::nullopt};
    staging.operands.resize(2 + static_cast<size_t>(std::ranges::count_if(post_ops, has_operand)));
    PackedCall p = pack_as_it_is(dense, post_ops, effort);
    if (p.pack) p.call = make_staged_call(std::make_unique<SharedCall>(std::move(p.call)), std::move(staging));
    return p;
  }
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (ir::product(l->shape) == 0 || !onednn::supports(l->dtype) || !(row_major(*l) || channels_last(*l))) return {};
  if (const auto p = point_product(c, post_ops, effort)) return make_packed_matmul(p->a, p->b, p->out, p->ops);
  // oneDNN takes post-ops on the forward pass only.
  if (c.pass != Pass::Forward && !post_ops.empty()) return {};
  if (post_ops.empty() && make_patch_convolution(c, effort)) return {};
  if (is_for_implicit_gemm(c, post_ops, effort)) {
    if (c.pass != Pass::Forward) return {};
    PackedCall p = pack_for_implicit_gemm(c);
    p.call = implicit_gemm(c, post_ops, true);
    return p;
  }
  if (is_for_depthwise(c, post_ops, effort)) return {};
  for (const PostOp& op : post_ops)
    if (has_operand(op) && (!onednn::supports(op.operand.dtype) || !packed_like(op.operand, op.operand))) return {};
  return onednn::packed_convolution(c, post_ops, inner_for(c));
}

}  // namespace

PackedCall make_packed_convolution(const Layout& x, const Layout& w, const Layout& out, const ConvolutionParams& params,
                                   std::span<const PostOp> post_ops, Effort effort) {
  const Convolution c = plain(Pass::Forward, x, w, out, params);
  const bool scales = !post_ops.empty() && ir::product(c.w.shape) != 0 && is_factor(c, post_ops[0]);
  if (!scales) return pack_as_it_is(c, post_ops, effort);
  PackedCall p = pack_as_it_is(c, post_ops.subspan(1), effort);
  if (!p.pack) return {};
  p.pack = std::make_shared<ScaledPack>(c.w, std::move(p.pack));
  p.factor_bytes = static_cast<size_t>(c.w.shape[0]) * sizeof(float);
  p.unpacking = {};
  p.order += "scaled";
  return p;
}

std::unique_ptr<LibraryCall> make_convolution_input_grad(const Layout& gy, const Layout& w, const Layout& gx,
                                                         const ConvolutionParams& params, Effort effort) {
  return any_convolution(plain(Pass::InputGrad, gx, w, gy, params), {}, effort);
}

std::unique_ptr<LibraryCall> make_convolution_weight_grad(const Layout& gy, const Layout& x, const Layout& gw,
                                                          const ConvolutionParams& params, Effort effort) {
  return any_convolution(plain(Pass::WeightGrad, x, gw, gy, params), {}, effort);
}

bool convolution_takes(DType type, bool transposed, std::span<const PostOp> ops, Effort effort) {
  // oneDNN reads another image more slowly than a kernel does.
  const auto is_image = [](const PostOp& op) {
    const auto steps = [&](size_t d) { return op.operand.shape[d] != 1 && op.operand.strides[d] != 0; };
    return has_operand(op) && std::ranges::any_of(std::views::iota(size_t{2}, size_t{op.operand.shape.size()}), steps);
  };
  const bool ours = effort == Effort::Little && type == DType::F32;
  return ours ? (transposed ? ops.empty() : are_ours(ops)) : std::ranges::none_of(ops, is_image);
}

}  // namespace lazuli::lowering
