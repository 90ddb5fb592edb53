// The one file that knows oneDNN. A Program is a few primitives over operands, result and scratch; all descriptors
// and memory objects are made once, and a run only sets addresses.
#include <oneapi/dnnl/dnnl.hpp>
#include <cstring>
#include <optional>
#include <stdexcept>
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering::onednn {
namespace {

using dnnl::memory;
using Descriptor = memory::desc;

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

memory::data_type data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32: return memory::data_type::f32;
    case ir::DType::BF16: return memory::data_type::bf16;
    case ir::DType::F16: return memory::data_type::f16;
    default: return memory::data_type::undef;
  }
}

// Dimensions of stride 0 become dimensions of size 1, which is how oneDNN spells a broadcast.
Descriptor descriptor(Layout layout) {
  for (size_t d = layout.shape.size(); d-- > 0;)
    if (layout.strides[d] == 0) {
      layout.shape[d] = 1;
      layout.strides[d] = d + 1 < layout.shape.size() ? layout.strides[d + 1] * layout.shape[d + 1] : 1;
    }
  return Descriptor(memory::dims(layout.shape.begin(), layout.shape.end()), data_type(layout.dtype),
                    memory::dims(layout.strides.begin(), layout.strides.end()));
}

Descriptor any_layout(const Descriptor& d) { return Descriptor(d.get_dims(), d.get_data_type(), memory::format_tag::any); }

// Where a value of a program lives while it runs.
struct Value {
  enum Place : uint8_t { Operand, Result, Scratch } place = Operand;
  size_t at = 0;  // operand number, or offset in scratch
  Descriptor descriptor;
};

class Program final : public LibraryCall {
 public:
  Value scratch(const Descriptor& d) {
    Value v{Value::Scratch, bytes_, d};
    bytes_ += round_up_64(d.get_size());
    return v;
  }
  void add(const dnnl::primitive& primitive, const Descriptor& scratchpad, std::vector<std::pair<int, Value>> args,
           std::string_view implementation) {
    if (scratchpad.get_size()) args.emplace_back(DNNL_ARG_SCRATCHPAD, scratch(scratchpad));
    Step step{primitive, {}};
    for (const auto& [arg, value] : args) {
      bindings_.push_back({memory(value.descriptor, engine(), nullptr), value.place, value.at});
      step.args.push_back({arg, bindings_.back().memory.get()});
    }
    steps_.push_back(std::move(step));
    text_ += (text_.empty() ? "" : " + ") + std::string(implementation);
  }
  // Makes `to` hold `from`; nothing when they are laid out alike.
  void reorder(const Value& from, const Value& to) {
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::reorder::primitive_desc pd(engine(), from.descriptor, engine(), to.descriptor, attr);
    add(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, "reorder");
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    for (Binding& b : bindings_) {
      void* data = b.place == Value::Operand  ? const_cast<void*>(operands[b.at])
                   : b.place == Value::Result ? results[0]
                                              : static_cast<char*>(scratch) + b.at;
      check(dnnl_memory_set_data_handle(b.memory.get(), data));
    }
    for (Step& s : steps_)
      check(dnnl_primitive_execute(s.primitive.get(), stream_.get(), static_cast<int>(s.args.size()), s.args.data()));
  }
  size_t scratch_bytes() const override { return bytes_; }
  std::string describe() const override { return "onednn:" + text_; }

 private:
  struct Binding {
    dnnl::memory memory;
    Value::Place place;
    size_t at;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  static void check(dnnl_status_t status) {
    if (status != dnnl_success) throw std::runtime_error("oneDNN failed with status " + std::to_string(status));
  }

  dnnl::stream stream_{engine()};
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  size_t bytes_ = 0;
  std::string text_;
};

bool fast(const dnnl::primitive_desc_base& pd) {
  return pd.get(true) && !std::strstr(pd.impl_info_str(), "ref");
}

// Attributes for `ops`, and the values that they read: operands number `first` and on.
struct Attributes {
  dnnl::primitive_attr attr;
  std::vector<std::pair<int, Value>> args;
};

Attributes attributes(std::span<const PostOp> ops, const ir::Dims& shape, size_t first) {
  using dnnl::algorithm;
  Attributes out;
  dnnl::post_ops list;
  for (const PostOp& op : ops) {
    if (has_operand(op)) {
      Value v{Value::Operand, first++, descriptor(broadcast_to(op.operand, shape))};
      out.args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(list.len()) | DNNL_ARG_SRC_1, v);
      list.append_binary(op.kind == PostOp::Add ? algorithm::binary_add : algorithm::binary_mul, v.descriptor);
      continue;
    }
    switch (op.kind) {
      case PostOp::Relu: list.append_eltwise(algorithm::eltwise_relu, 0, 0); break;
      case PostOp::GeluErf: list.append_eltwise(algorithm::eltwise_gelu_erf, 0, 0); break;
      case PostOp::GeluTanh: list.append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0); break;
      case PostOp::Sigmoid: list.append_eltwise(algorithm::eltwise_logistic, 0, 0); break;
      case PostOp::Tanh: list.append_eltwise(algorithm::eltwise_tanh, 0, 0); break;
      case PostOp::Silu: list.append_eltwise(algorithm::eltwise_swish, 1, 0); break;
      case PostOp::Scale: list.append_eltwise(algorithm::eltwise_linear, static_cast<float>(op.scale), 0); break;
      default: throw InternalError("a post-op without a oneDNN counterpart");
    }
  }
  out.attr.set_post_ops(list);
  out.attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

// oneDNN takes a broadcast only where it broadcasts itself: in dimensions before the `trailing` last.
bool describable(const Layout& layout, size_t trailing) {
  for (size_t d = 0; d < layout.shape.size(); ++d)
    if (layout.strides[d] < 0 || (layout.strides[d] == 0 && layout.shape[d] > 1 && d + trailing >= layout.shape.size()))
      return false;
  return true;
}

struct Matmul {
  Descriptor a, b, out;
  Attributes attributes;
  dnnl::matmul::primitive_desc pd;
};

std::optional<Matmul> plan_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops,
                                  Inner b_layout) {
  if (!describable(a, 2) || !describable(b, 2) || !describable(out, out.shape.size())) return {};
  Matmul m{descriptor(a), descriptor(b), descriptor(out), attributes(ops, out.shape, 2), {}};
  try {
    const Descriptor inner_b = b_layout == Inner::Best ? any_layout(m.b) : m.b;
    m.pd = dnnl::matmul::primitive_desc(engine(), m.a, inner_b, m.out, m.attributes.attr, true);
  } catch (const dnnl::error&) {
    return {};
  }
  if (!fast(m.pd)) return {};
  return m;
}

std::unique_ptr<Program> run_matmul(Matmul& m, Value b) {
  auto program = std::make_unique<Program>();
  if (b.descriptor != m.pd.weights_desc()) {
    Value packed = program->scratch(m.pd.weights_desc());
    program->reorder(b, packed);
    b = packed;
  }
  auto args = m.attributes.args;
  args.emplace_back(DNNL_ARG_SRC, Value{Value::Operand, 0, m.a});
  args.emplace_back(DNNL_ARG_WEIGHTS, b);
  args.emplace_back(DNNL_ARG_DST, Value{Value::Result, 0, m.out});
  program->add(dnnl::matmul(m.pd), m.pd.scratchpad_desc(), args, m.pd.impl_info_str());
  return program;
}

}  // namespace

bool supports(ir::DType dtype) {
  static const bool bf16 = dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core;
  return dtype == ir::DType::F32 || (dtype == ir::DType::BF16 && bf16);
}

std::unique_ptr<LibraryCall> matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops,
                                    Inner b_layout) {
  auto m = plan_matmul(a, b, out, ops, b_layout);
  if (!m) return nullptr;
  return run_matmul(*m, {Value::Operand, 1, m->b});
}

namespace {

// Numbers that say all of a layout whose blocks repeat.
void append_text(std::string& text, const Descriptor& d) {
  const auto append = [&](const memory::dims& numbers) {
    for (int64_t n : numbers) text += std::to_string(n) + ",";
    text += ";";
  };
  text += std::to_string(static_cast<int>(d.get_data_type())) + ":";
  append(d.get_padded_dims());
  append(d.get_strides());
  append(d.get_inner_blks());
  append(d.get_inner_idxs());
}

// A few columns are padded to a block: of a large operand that is more to write, and to keep, than packing saves.
bool is_mostly_padding(const Descriptor& given, const Descriptor& wanted) {
  constexpr size_t kSmall = 64 << 10;  // bytes
  return wanted.get_size() > std::max(kSmall, 2 * given.get_size());
}

// The packing of operand kPackedOperand from `given` to `wanted`; nothing where there is nothing to do, or where the
// order has no name.
PackedCall packing(const Descriptor& given, const Descriptor& wanted) {
  if (given == wanted || wanted.get_format_kind() != memory::format_kind::blocked || is_mostly_padding(given, wanted)) return {};
  auto pack = std::make_unique<Program>();
  pack->reorder({Value::Operand, 0, given}, {Value::Result, 0, wanted});
  PackedCall p{std::move(pack), nullptr, wanted.get_size(), {}};
  append_text(p.order, given);
  append_text(p.order, wanted);
  return p;
}

}  // namespace

PackedCall packed_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops) {
  auto m = plan_matmul(a, b, out, ops, Inner::Best);
  if (!m) return {};
  const Descriptor wanted = m->pd.weights_desc();
  PackedCall p = packing(m->b, wanted);
  if (p.pack) p.call = run_matmul(*m, {Value::Operand, kPackedOperand, wanted});
  return p;
}

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
      : c_(c), g_(geometry(c)), given_{descriptor(c.x), grouped_weights(c.w, c.groups), descriptor(c.y)},
        inner_{inside(c.x, activations), any_layout(given_.w), inside(c.y, activations)} {
    if (!ops.empty() && ops[0].kind == PostOp::Add && is_bias(ops[0].operand)) {
      bias_ = Value{Value::Operand, 2, Descriptor({c.y.shape[1]}, data_type(ops[0].operand.dtype), memory::format_tag::a)};
      ops = ops.subspan(1);
    }
    attributes_ = attributes(ops, c.y.shape, bias_ ? 3 : 2);
  }

  // The same with w packed.
  PackedCall build_packed() {
    pack_weights_ = true;
    auto call = build();
    if (call && packed_.pack) packed_.call = std::move(call);
    return packed_.call ? std::move(packed_) : PackedCall{};
  }

  std::unique_ptr<Program> build() {
    switch (c_.pass) {
      case Pass::Forward: return forward();
      case Pass::InputGrad: return input_grad();
      case Pass::WeightGrad: return weight_grad();
    }
    return nullptr;
  }

 private:
  // One dense number per channel.
  bool is_bias(const Layout& operand) const {
    const Layout b = broadcast_to(operand, c_.y.shape);
    for (size_t d = 0; d < b.shape.size(); ++d)
      if (b.shape[d] != 1 && (d == 1 ? b.strides[d] != 1 : b.strides[d] != 0)) return false;
    return operand.dtype == ir::DType::F32 || operand.dtype == c_.y.dtype;
  }

  dnnl::convolution_forward::primitive_desc forward_pd(const Inside& in, const dnnl::primitive_attr& attr) const {
    const auto kind = c_.pass == Pass::Forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
    const auto direct = dnnl::algorithm::convolution_direct;
    if (bias_)
      return {engine(), kind, direct, in.x, in.w, bias_->descriptor, in.y, g_.stride, g_.dilation, g_.low, g_.high, attr, true};
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
    if (!fast(pd)) return nullptr;
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
    return p;
  }

  std::unique_ptr<Program> input_grad() {
    const auto hint = forward_pd({any_layout(given_.x), any_layout(given_.w), any_layout(given_.y)}, attributes_.attr);
    if (!hint.get(true)) return nullptr;
    const dnnl::convolution_backward_data::primitive_desc pd(
        engine(), dnnl::algorithm::convolution_direct, inner_.x, inner_.w, inner_.y, g_.stride, g_.dilation, g_.low,
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
    const dnnl::convolution_backward_weights::primitive_desc pd(
        engine(), dnnl::algorithm::convolution_direct, inner_.x, inner_.w, inner_.y, g_.stride, g_.dilation, g_.low,
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
  Geometry g_;
  Inside given_, inner_;
  std::optional<Value> bias_;
  Attributes attributes_;
  bool pack_weights_ = false;
  PackedCall packed_;
};

template <class Made>
Made build_convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations,
                       Made (*build)(ConvolutionBuilder&&)) {
  for (const Layout* l : {&c.x, &c.w, &c.y})
    if (!describable(*l, l->shape.size())) return Made{};
  try {
    return build(ConvolutionBuilder(c, ops, activations));
  } catch (const dnnl::error&) {
    return Made{};
  }
}

}  // namespace

std::unique_ptr<LibraryCall> convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations) {
  using Call = std::unique_ptr<LibraryCall>;
  return build_convolution<Call>(c, ops, activations, [](ConvolutionBuilder&& b) -> Call { return b.build(); });
}

PackedCall packed_convolution(const Convolution& c, std::span<const PostOp> ops, Inner activations) {
  return build_convolution<PackedCall>(c, ops, activations, [](ConvolutionBuilder&& b) { return b.build_packed(); });
}

}  // namespace lazuli::lowering::onednn
