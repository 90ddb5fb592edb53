// The one file that knows oneDNN. A Program is a few primitives over operands, result and scratch; all descriptors
// and memory objects are made once, and a run only sets addresses.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <oneapi/dnnl/dnnl.hpp>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/invalid_flag.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering::onednn {
namespace {

using dnnl::memory;
using Descriptor = memory::desc;

// What it may use is decided before the first question to it.
const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    if (is_held_to_avx2()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

memory::data_type data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32:
      return memory::data_type::f32;
    case ir::DType::BF16:
      return memory::data_type::bf16;
    case ir::DType::F16:
      return memory::data_type::f16;
    default:
      return memory::data_type::undef;
  }
}

// Dimensions of stride 0 become dimensions of size 1, which is how oneDNN spells a broadcast. The first one steps over
// all others, or a single image that is channels-last would not be known as such.
Descriptor descriptor(Layout layout) {
  for (size_t d = layout.shape.size(); d-- > 0;)
    if (layout.strides[d] == 0) {
      layout.shape[d] = 1;
      layout.strides[d] = 1;
      const size_t last = d == 0 ? size_t{layout.shape.size()} : std::min(d + 2, size_t{layout.shape.size()});
      for (size_t e = d + 1; e < last; ++e)
        layout.strides[d] = std::max<int64_t>(layout.strides[d], layout.strides[e] * layout.shape[e]);
    }
  return Descriptor(memory::dims(layout.shape.begin(), layout.shape.end()), data_type(layout.dtype),
                    memory::dims(layout.strides.begin(), layout.strides.end()));
}

Descriptor any_layout(const Descriptor& d) {
  return Descriptor(d.get_dims(), d.get_data_type(), memory::format_tag::any);
}

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

  // The last post-ops, done here.
  struct Tail {
    std::vector<PostOp> ops;  // broadcast to the result
    Layout result;
    size_t operands_at;
    // The program without them: it runs where the processor notes numbers that oneDNN's kernels do not treat as eager
    // does. None: this program is without them.
    std::function<std::unique_ptr<Program>()> rest;
  };
  void finish_with(Tail tail) { tail_.emplace(std::move(tail)); }

  // What was made for one thread runs on one, so that its bits are the same whoever runs it.
  void run(const void* const* operands, void* const* results, void* scratch) override {
    if (threads_ > 1) {
      openmp_has_worked();
      return run_here(operands, results, scratch);
    }
    const OneThread one;
    run_here(operands, results, scratch);
  }
  size_t scratch_bytes() const override { return bytes_; }
  std::string describe() const override { return "onednn:" + text_; }
  bool depends_on_threads() const override { return threads_ > 1; }

 private:
  void run_here(const void* const* operands, void* const* results, void* scratch) {
    if (!tail_) return execute(operands, results, scratch);
    if (!tail_->rest) {
      execute(operands, results, scratch);
      return finish(operands, results);
    }
    if (finds_old_flags_) clear_invalid();
    execute(operands, results, scratch);
    if (!is_invalid_raised()) return;
    if (!finds_old_flags_) {
      finds_old_flags_ = true;
      clear_invalid();
      execute(operands, results, scratch);
      if (!is_invalid_raised()) return;
    }
    if (!rest_) rest_ = tail_->rest();
    const size_t bytes = round_up_64(rest_->scratch_bytes());
    const std::unique_ptr<void, decltype(&std::free)> own(bytes ? std::aligned_alloc(64, bytes) : nullptr, &std::free);
    rest_->execute(operands, results, own.get());
    finish(operands, results);
  }
  void finish(const void* const* operands, void* const* results) const {
    run_post_ops(tail_->ops, tail_->result, results[0], operands + tail_->operands_at);
  }
  void execute(const void* const* operands, void* const* results, void* scratch) {
    for (Binding& b : bindings_) {
      void* data = b.place == Value::Operand  ? const_cast<void*>(operands[b.at])
                   : b.place == Value::Result ? results[0]
                                              : static_cast<char*>(scratch) + b.at;
      check(dnnl_memory_set_data_handle(b.memory.get(), data));
    }
    for (Step& s : steps_)
      check(dnnl_primitive_execute(s.primitive.get(), stream_.get(), static_cast<int>(s.args.size()), s.args.data()));
  }
  const int threads_ = omp_get_max_threads();  // that it is made for
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
  std::optional<Tail> tail_;
  std::unique_ptr<Program> rest_;
  bool finds_old_flags_ = false;  // of kernels that ran before
};

// oneDNN's kernels take nan for zero at a relu: the processor's maximum gives its second operand then. How many of the
// ops come before the first; none: there is none.
std::optional<size_t> ops_before_relu(std::span<const PostOp> ops) {
  const auto relu = std::ranges::find(ops, PostOp::Relu, &PostOp::kind);
  if (relu == ops.end()) return {};
  return static_cast<size_t>(relu - ops.begin());
}

Program::Tail tail_from(std::span<const PostOp> ops, size_t kept, const Layout& result) {
  const size_t operands_at = 2 + static_cast<size_t>(std::ranges::count_if(ops.first(kept), has_operand));
  return {broadcast_post_ops(ops.subspan(kept), result.shape), result, operands_at, {}};
}

// `make` is given how many ops are left inside.
template <class Make>
void watch_relu(Program& p, std::span<const PostOp> ops, const Layout& result, Make make) {
  const auto kept = ops_before_relu(ops);
  if (!kept) return;
  Program::Tail tail = tail_from(ops, *kept, result);
  tail.rest = [make, kept = *kept] { return make(kept); };
  p.finish_with(std::move(tail));
}

// How many post-ops are left to the kernel. Of a small result the relu is done here: looking at the flags of all
// threads would cost as much.
size_t ops_inside(std::span<const PostOp> ops, const Layout& result) {
  constexpr int64_t kSmall = 64 << 10;
  return ir::product(result.shape) <= kSmall ? ops_before_relu(ops).value_or(ops.size()) : ops.size();
}

// Makes a program with the ops that are left to the kernel, and does the others after it.
template <class Make>
std::unique_ptr<Program> finished(std::span<const PostOp> ops, const Layout& result, Make make) {
  const size_t inside = ops_inside(ops, result);
  std::unique_ptr<Program> p = make(ops.first(inside));
  if (p && inside < ops.size()) p->finish_with(tail_from(ops, inside, result));
  return p;
}

bool fast(const dnnl::primitive_desc_base& pd) { return pd.get(true) && !std::strstr(pd.impl_info_str(), "ref"); }

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
      case PostOp::Relu:
        list.append_eltwise(algorithm::eltwise_relu, 0, 0);
        break;
      case PostOp::GeluErf:
        list.append_eltwise(algorithm::eltwise_gelu_erf, 0, 0);
        break;
      case PostOp::GeluTanh:
        list.append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
        break;
      case PostOp::Sigmoid:
        list.append_eltwise(algorithm::eltwise_logistic, 0, 0);
        break;
      case PostOp::Tanh:
        list.append_eltwise(algorithm::eltwise_tanh, 0, 0);
        break;
      case PostOp::Silu:
        list.append_eltwise(algorithm::eltwise_swish, 1, 0);
        break;
      case PostOp::HardSwish:
        list.append_eltwise(algorithm::eltwise_hardswish, 1.f / 6, 0.5f);
        break;
      case PostOp::Scale:
        list.append_eltwise(algorithm::eltwise_linear, static_cast<float>(op.scale), 0);
        break;
      default:
        throw InternalError("a post-op without a oneDNN counterpart");
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

// The same, its relu exact. `out` and `ops` are those of the plan.
std::unique_ptr<Program> run_exactly(Matmul& m, Value b, const Layout& out, std::span<const PostOp> ops) {
  auto program = run_matmul(m, b);
  watch_relu(*program, ops, out, [m, b, out, own = std::vector<PostOp>(ops.begin(), ops.end())](size_t kept) {
    Matmul plain{m.a, m.b, m.out, attributes(std::span(own).first(kept), out.shape, 2), {}};
    plain.pd = dnnl::matmul::primitive_desc(engine(), m.pd.src_desc(), m.pd.weights_desc(), m.pd.dst_desc(),
                                            plain.attributes.attr);
    return run_matmul(plain, b);
  });
  return program;
}

}  // namespace

bool supports(ir::DType dtype) {
  static const bool bf16 = (engine(), dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core);
  return dtype == ir::DType::F32 || (dtype == ir::DType::BF16 && bf16);
}

std::unique_ptr<LibraryCall> matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops,
                                    Inner b_layout) {
  const OneThreadForLittle one(ir::product(out.shape) * a.shape.back());
  return finished(ops, out, [&](std::span<const PostOp> inside) -> std::unique_ptr<Program> {
    auto m = plan_matmul(a, b, out, inside, b_layout);
    return m ? run_exactly(*m, {Value::Operand, 1, m->b}, out, inside) : nullptr;
  });
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
// order has no name. An order without blocks is none that a kernel was made for: without AVX-512 products would have
// columns side by side, for which they are slower than for rows (256 x 3072 x 768: 145 against 238 GFLOP/s).
PackedCall packing(const Descriptor& given, const Descriptor& wanted) {
  if (given == wanted || wanted.get_format_kind() != memory::format_kind::blocked || wanted.get_inner_nblks() == 0 ||
      is_mostly_padding(given, wanted))
    return {};
  auto pack = std::make_unique<Program>();
  pack->reorder({Value::Operand, 0, given}, {Value::Result, 0, wanted});
  PackedCall p{std::move(pack), nullptr, wanted.get_size(), {}};
  append_text(p.order, given);
  append_text(p.order, wanted);
  return p;
}

}  // namespace

PackedCall packed_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops) {
  const OneThreadForLittle one(ir::product(out.shape) * a.shape.back());
  PackedCall p;
  auto call = finished(ops, out, [&](std::span<const PostOp> inside) -> std::unique_ptr<Program> {
    auto m = plan_matmul(a, b, out, inside, Inner::Best);
    if (!m) return nullptr;
    const Descriptor wanted = m->pd.weights_desc();
    p = packing(m->b, wanted);
    return p.pack ? run_exactly(*m, {Value::Operand, kPackedOperand, wanted}, out, inside) : nullptr;
  });
  p.call = std::move(call);
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
    watch_relu(*p, ops_, c_.y, [c = c_, ops = ops_, settled, packed = pack_weights_](size_t kept) {
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

  std::unique_ptr<Program> input_grad() {
    const auto hint = forward_pd({any_layout(given_.x), any_layout(given_.w), any_layout(given_.y)}, attributes_.attr);
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
