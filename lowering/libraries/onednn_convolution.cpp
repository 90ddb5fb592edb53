// oneDNN's convolutions and their gradients.
#include <algorithm>
#include <cstring>
#include "lowering/libraries/onednn_program.h"

namespace lazuli::lowering::onednn {
namespace {

// w as [groups, OC / groups, C / groups, kernel...] when there are groups.
Descriptor grouped_weights(const Layout& w, int64_t groups) {
  if (groups == 1) return descriptor(w);
  Layout g = w;
  g.shape[0] /= groups;
  g.shape.insert(0, groups);
  g.strides.insert(0, w.strides[0] * g.shape[1]);
  return descriptor(g);
}

struct Geometry {
  memory::dims stride, dilation, low, high;
};

// oneDNN's trailing padding is what makes its size formula exact; torch's formula rounds down.
Geometry geometry(const Convolution& c) {
  Geometry g;
  for (size_t d = 0; d < c.stride.size(); ++d) {
    const int64_t in = c.x.shape[d + 2], out = c.y.shape[d + 2], span = (c.w.shape[d + 2] - 1) * c.dilation[d] + 1;
    g.stride.push_back(c.stride[d]);
    g.dilation.push_back(c.dilation[d] - 1);
    g.low.push_back(c.padding[d]);
    g.high.push_back((out - 1) * c.stride[d] + span - in - c.padding[d]);
  }
  return g;
}

struct Inside {
  Descriptor x, w, y;
};

Descriptor inside(const Layout& given, Inner inner) {
  if (inner == Inner::ChannelsLast) return descriptor(channels_last_layout(given.dtype, given.shape));
  return inner == Inner::Best ? any_layout(descriptor(given)) : descriptor(given);
}

// The convolution between operands laid out as in `given`, through primitives that like `inner`.
class ConvolutionBuilder {
 public:
  ConvolutionBuilder(const Convolution& c, std::span<const PostOp> ops, Inner activations)
      : c_(c),
        ops_(ops.begin(), ops.end()),
        g_(geometry(c)),
        given_{descriptor(c.x), grouped_weights(c.w, c.groups), descriptor(c.y)},
        inner_{inside(c.x, activations), any_layout(given_.w), inside(c.y, activations)} {
    if (!ops.empty() && ops[0].kind == PostOp::Add && is_bias(ops[0].operand)) {
      bias_ =
          Value{Value::Operand, 2, Descriptor({c.y.shape[1]}, data_type(ops[0].operand.dtype), memory::format_tag::a)};
      ops = ops.subspan(1);
    }
    attributes_ = attributes(ops, c.y.shape, bias_ ? 3 : 2);
  }

  // The same with w packed, as `packed` says; null where there is nothing to pack.
  std::unique_ptr<Program> build_packed(PackedCall& packed) {
    pack_weights_ = true;
    auto program = build();
    if (!program || !packed_.pack) return nullptr;
    packed = std::move(packed_);
    return program;
  }

  std::unique_ptr<Program> build() {
    switch (c_.pass) {
      case Pass::Forward:
        return forward();
      case Pass::InputGrad:
        return input_grad();
      case Pass::WeightGrad:
        return weight_grad();
    }
    return nullptr;
  }

 private:
  bool is_bias(const Layout& operand) const {
    return is_per_channel(operand, c_.y.shape) && (operand.dtype == ir::DType::F32 || operand.dtype == c_.y.dtype);
  }

  dnnl::convolution_forward::primitive_desc forward_pd(const Inside& in, const dnnl::primitive_attr& attr) const {
    const auto kind = c_.pass == Pass::Forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const auto direct = dnnl::algorithm::convolution_direct;
    if (bias_)
      return {engine(),    kind,   direct,  in.x, in.w, bias_->descriptor, in.y, g_.stride,
              g_.dilation, g_.low, g_.high, attr, true};
    return {engine(), kind, direct, in.x, in.w, in.y, g_.stride, g_.dilation, g_.low, g_.high, attr, true};
  }

  // The value that a primitive reads in place of `v`: v itself, or a reordered copy.
  Value read(Program& p, const Value& v, const Descriptor& wanted) const {
    if (v.descriptor == wanted) return v;
    Value copy = p.scratch(wanted);
    p.reorder(v, copy);
    return copy;
  }
  Value weights(Program& p, const Descriptor& wanted) {
    if (!pack_weights_) return read(p, {Value::Operand, kPackedOperand, given_.w}, wanted);
    packed_ = packing(given_.w, wanted);
    return {Value::Operand, kPackedOperand, wanted};
  }
  Value written(Program& p, const Value& v, const Descriptor& wanted) const {
    return v.descriptor == wanted ? v : p.scratch(wanted);
  }
  void write_back(Program& p, const Value& from, const Value& v) const {
    if (from.place != v.place) p.reorder(from, v);
  }

  std::unique_ptr<Program> forward() {
    auto pd = forward_pd(inner_, attributes_.attr);
    if (!is_settled_ && (!fast(pd) || activates_apart(pd))) return nullptr;
    auto p = std::make_unique<Program>();
    const Value result{Value::Result, 0, given_.y};
    const Value x = read(*p, {Value::Operand, 0, given_.x}, pd.src_desc());
    const Value w = weights(*p, pd.weights_desc());
    const Value y = written(*p, result, pd.dst_desc());
    auto args = attributes_.args;
    if (bias_) args.emplace_back(DNNL_ARG_BIAS, *bias_);
    args.insert(args.end(), {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    p->add(dnnl::convolution_forward(pd), pd.scratchpad_desc(), args, pd.impl_info_str());
    write_back(*p, y, result);
    const Inside settled{pd.src_desc(), pd.weights_desc(), pd.dst_desc()};
    watch_nan(*p, ops_, c_.y, [c = c_, ops = ops_, settled, packed = pack_weights_](size_t kept) {
      ConvolutionBuilder plain(c, std::span(ops).first(kept), Inner::Given);
      plain.is_settled_ = true;
      plain.inner_ = settled;
      if (packed) plain.given_.w = settled.w;
      return plain.forward();
    });
    return p;
  }

  // Convolutions by products do what follows one number after the other, and make nan of infinities, and numbers of
  // nan.
  bool activates_apart(const dnnl::primitive_desc_base& pd) const {
    const auto activates = [](const PostOp& op) { return !has_operand(op) && op.kind != PostOp::Scale; };
    return std::ranges::any_of(ops_, activates) && std::strstr(pd.impl_info_str(), "gemm");
  }

  // Its result may be wider than its operands; no forward convolution reads a wider image.
  std::unique_ptr<Program> input_grad() {
    Layout image = c_.x;
    image.dtype = c_.y.dtype;
    const auto hint =
        forward_pd({any_layout(descriptor(image)), any_layout(given_.w), any_layout(given_.y)}, attributes_.attr);
    if (!hint.get(true)) return nullptr;
    const dnnl::convolution_backward_data::primitive_desc pd(engine(), dnnl::algorithm::convolution_direct, inner_.x,
                                                             inner_.w, inner_.y, g_.stride, g_.dilation, g_.low,
                                                             g_.high, hint, attributes_.attr, true);
    if (!fast(pd)) return nullptr;
    auto p = std::make_unique<Program>();
    const Value result{Value::Result, 0, given_.x};
    const Value gy = read(*p, {Value::Operand, 0, given_.y}, pd.diff_dst_desc());
    const Value w = weights(*p, pd.weights_desc());
    const Value gx = written(*p, result, pd.diff_src_desc());
    p->add(dnnl::convolution_backward_data(pd), pd.scratchpad_desc(),
           {{DNNL_ARG_DIFF_DST, gy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, gx}}, pd.impl_info_str());
    write_back(*p, gx, result);
    return p;
  }

  std::unique_ptr<Program> weight_grad() {
    const auto hint = forward_pd({any_layout(given_.x), any_layout(given_.w), any_layout(given_.y)}, attributes_.attr);
    if (!hint.get(true)) return nullptr;
    const dnnl::convolution_backward_weights::primitive_desc pd(engine(), dnnl::algorithm::convolution_direct, inner_.x,
                                                                inner_.w, inner_.y, g_.stride, g_.dilation, g_.low,
                                                                g_.high, hint, attributes_.attr, true);
    if (!fast(pd)) return nullptr;
    auto p = std::make_unique<Program>();
    const Value result{Value::Result, 0, given_.w};
    const size_t gy_at = c_.swapped ? 1 : 0;
    const Value gy = read(*p, {Value::Operand, gy_at, given_.y}, pd.diff_dst_desc());
    const Value x = read(*p, {Value::Operand, 1 - gy_at, given_.x}, pd.src_desc());
    const Value gw = written(*p, result, pd.diff_weights_desc());
    p->add(dnnl::convolution_backward_weights(pd), pd.scratchpad_desc(),
           {{DNNL_ARG_DIFF_DST, gy}, {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, gw}}, pd.impl_info_str());
    write_back(*p, gw, result);
    return p;
  }

  const Convolution& c_;
  const std::vector<PostOp> ops_;
  Geometry g_;
  Inside given_, inner_;
  std::optional<Value> bias_;
  Attributes attributes_;
  bool pack_weights_ = false;
  bool is_settled_ = false;  // in inner_: whatever implementation takes that will do
  PackedCall packed_;
};

template <class Build>
std::unique_ptr<Program> build_convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations,
                                           Build build) {
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (!describable(*l, l->shape.size())) return nullptr;
  const OneThreadForLittle one(ir::product(c.y.shape) / std::max<int64_t>(c.w.shape[0], 1) * ir::product(c.w.shape));
  return finished(ops, c.y, [&](std::span<const PostOp> inside) -> std::unique_ptr<Program> {
    try {
      return build(ConvolutionBuilder(c, inside, activations));
    } catch (const dnnl::error&) {
      return nullptr;
    }
  });
}

}  // namespace

std::unique_ptr<LibraryCall> convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations) {
  return build_convolution(c, ops, activations, [](ConvolutionBuilder&& b) { return b.build(); });
}

PackedCall packed_convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations) {
  PackedCall p;
  auto call = build_convolution(c, ops, activations, [&](ConvolutionBuilder&& b) { return b.build_packed(p); });
  if (!call) return {};
  p.call = std::move(call);
  return p;
}

}  // namespace lazuli::lowering::onednn
