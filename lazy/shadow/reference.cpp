#include "lazy/shadow/reference.h"

#include <cmath>
#include <ATen/ATen.h>
#include "ir/body.h"
#include "ir/builder.h"
#include "ir/error.h"
#include "ir/interpret.h"
#include "ir/rounding.h"
#include "lazy/external/external.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/rows/torch_rows.h"
#include "lazy/support/convert.h"
#include "lazy/support/mutex.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;

struct Interpreted {
  Mutex mutex{Rank::Leaf};
  std::map<std::string, int64_t> rows;
};
Interpreted& interpreted() {
  static auto* i = new Interpreted;
  return *i;
}

// ---- Rounding errors

// Terms that one result element of a sum adds up; 0: the row is no sum.
int64_t terms(const ir::Graph& graph, const ir::Node& n) {
  std::vector<const ir::Type*> types;
  for (ir::Value v : n.inputs) types.push_back(v ? &graph.type(v) : nullptr);
  return ir::terms(n.op, types, n.attrs, n.types[0]);
}

Tensor uniform_like(const Tensor& x, at::Generator& generator) {
  return at::empty_like(x, x.options(), at::MemoryFormat::Contiguous).uniform_(-1, 1, generator);
}

// A generator beside the user's.
at::Generator make_generator(uint64_t seed) {
  at::Generator g = at::globalContext().defaultGenerator(backing().device()).clone();
  g.set_current_seed(seed);
  return g;
}

// ---- One run

class Run {
 public:
  Run(const Reference& how, const ir::Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars,
      at::Generator* noise)
      : how_(how), graph_(graph), inputs_(inputs), scalars_(scalars), noise_(noise), values_(graph.nodes.size()) {}

  Tensors run() {
    std::vector<uint32_t> last(graph_.nodes.size());
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      last[id] = id;
      for (ir::Value v : graph_.nodes[id].inputs)
        if (v) last[v.node] = id;
    }
    for (ir::Value v : graph_.outputs) last[v.node] = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      values_[id] = node(id);
      if (last[id] == id) values_[id].clear();
      for (ir::Value v : graph_.nodes[id].inputs)
        if (v && last[v.node] == id) values_[v.node].clear();
    }
    Tensors outputs;
    for (ir::Value v : graph_.outputs) outputs.push_back(values_[v.node][v.result].contiguous());
    return outputs;
  }

 private:
  bool is_wide() const { return how_.numbers != Reference::Numbers::Eager; }
  c10::ScalarType type_of(ir::DType t) const { return is_wide() && ir::is_floating(t) ? at::kDouble : to_torch(t); }
  at::TensorOptions options(ir::DType t) const {
    return at::TensorOptions().dtype(type_of(t)).device(backing().device());
  }
  // As the graph's type says, whatever it is here.
  static Tensor narrow(const Tensor& x, ir::DType t) { return x.defined() ? x.to(to_torch(t)) : x; }
  Tensor as_here(const Tensor& x, ir::DType t) const { return x.to(type_of(t)); }

  // A 0-dim value from the bits that constants and run-time numbers carry, rounded to its type.
  Tensor number(ir::DType t, int64_t bits) const {
    const at::TensorOptions host = at::TensorOptions().dtype(to_torch(t));
    const Tensor x = ir::is_floating(t) ? at::full({}, std::bit_cast<double>(bits), host) : at::full({}, bits, host);
    return x.to(options(t));
  }

  Tensors node(uint32_t id) {
    const ir::Node& n = graph_.nodes[id];
    switch (n.op) {
      case Op::input:
        return {as_here(inputs_[n.attrs.number(0)], n.types[0].dtype)};
      // Not rounded to a narrow type: where eager rounds a number to it, recording has done so.
      case Op::scalar:
        return {number(ir::compute_type(n.types[0].dtype), scalars_[n.attrs.number(0)])};
      case Op::constant:
        return {number(n.types[0].dtype, n.attrs.number(0))};
      case Op::iota:
        return {at::arange(n.attrs.number(0), options(ir::DType::I64))};
      case Op::uninitialized:
        return {undefined(n.types[0])};
      default:
        break;
    }
    Tensors in;
    for (ir::Value v : n.inputs) in.push_back(v ? values_[v.node][v.result] : Tensor());
    if (n.op == Op::external) return external(n, in);
    if (noise_ && rounds_inside(n)) move_operands(n, in);
    Tensors out = fitted(id, compute(n, in));
    if (noise_) add_noise(n, in, out);
    return out;
  }

  // Any content will do: what depends on it differs from run to run.
  Tensor undefined(const ir::Type& t) const {
    if (!noise_) return at::zeros(to_ref(t.shape), options(t.dtype));
    if (ir::is_floating(t.dtype)) return at::full(to_ref(t.shape), std::nan(""), options(t.dtype));
    return at::randint(0, 2, to_ref(t.shape), *noise_, options(t.dtype));
  }

  Tensors compute(const ir::Node& n, const Tensors& in) {
    if (n.op == Op::convert) return {in[0].to(type_of(n.types[0].dtype))};
    if (n.op == Op::bitcast) {
      const Tensor bytes = narrow(in[0], graph_.type(n.inputs[0]).dtype).contiguous().flatten();
      return {as_here(bytes.view(to_torch(n.types[0].dtype)).reshape(to_ref(n.types[0].shape)), n.types[0].dtype)};
    }
    if (ir::is_composite(n.op) && how_.decomposed)
      if (auto made = decomposed(n, in)) return *made;
    std::optional<Tensors> made;
    try {
      made = torch_row(n, ir::is_elementwise(n.op) || ir::is_view(n.op) ? in : dense(in));
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const c10::Error&) {  // not for these types
    }
    if (!made && ir::is_composite(n.op)) made = decomposed(n, in);
    return made ? *std::move(made) : interpreted_row(n, in);
  }

  // Values are views here, and some of torch's kernels take what they are given for dense.
  static Tensors dense(Tensors in) {
    for (Tensor& x : in)
      if (x.defined()) x = x.contiguous();
    return in;
  }

  // What torch gave, in the row's types. Another shape is a fault of the shape rule.
  Tensors fitted(uint32_t id, Tensors made) const {
    const ir::Node& n = graph_.nodes[id];
    for (size_t r = 0; r < n.types.size() && r < made.size(); ++r) {
      const at::IntArrayRef shape = to_ref(n.types[r].shape);
      const bool statistics = r > 0 && made[r].numel() == n.types[r].numel();  // torch's come in other shapes
      if (made[r].sizes() != shape && !statistics) {
        std::ostringstream text;
        text << "a shape of " << shape << ", and eager's is " << made[r].sizes();
        throw ShapeMismatch(id, text.str());
      }
      made[r] = as_here(made[r].reshape(shape), n.types[r].dtype);
    }
    return made;
  }

  std::optional<Tensors> decomposed(const ir::Node& n, const Tensors& in) {
    ir::Graph g;
    ir::GraphBuilder b(g);
    std::vector<ir::Value> operands;
    Tensors present;
    for (size_t i = 0; i < in.size(); ++i) {
      operands.push_back(in[i].defined() ? b.input(graph_.type(n.inputs[i])) : ir::Value{});
      if (in[i].defined()) present.push_back(in[i]);
    }
    g.outputs.resize(n.types.size());
    if (!ir::decompose(b, {n.op, operands, {}, n.attrs}, g.outputs)) return {};
    return Run(how_, g, present, {}, noise_).run();
  }

  // By the IR's own interpreter; in float64 where values are.
  Tensors interpreted_row(const ir::Node& n, const Tensors& in) const {
    for (const Tensor& x : in)
      if (x.defined() && x.requires_grad()) throw NotDifferentiable();
    {
      std::lock_guard lock(interpreted().mutex);
      ++interpreted().rows[std::string(ir::name(n.op))];
    }
    const bool exact = n.op == Op::random_uniform || !is_wide();
    const auto own = [&](ir::DType t) { return !exact && ir::is_floating(t) ? ir::DType::F64 : t; };
    std::vector<ir::Tensor> operands(in.size());
    std::vector<const ir::Tensor*> pointers;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!in[i].defined()) {
        pointers.push_back(nullptr);
        continue;
      }
      const ir::Type& type = graph_.type(n.inputs[i]);
      const Tensor host = in[i].to(to_torch(own(type.dtype))).cpu().contiguous();
      operands[i] = ir::Tensor({own(type.dtype), type.shape});
      if (host.numel()) std::memcpy(operands[i].data.data(), host.const_data_ptr(), operands[i].data.size());
      pointers.push_back(&operands[i]);
    }
    ir::Node node = n;
    for (ir::Type& t : node.types) t.dtype = own(t.dtype);
    Tensors out;
    for (const ir::Tensor& t : ir::interpret_node(node, pointers)) {
      Tensor host = at::empty(to_ref(t.type.shape), at::TensorOptions().dtype(to_torch(t.type.dtype)));
      if (host.numel()) std::memcpy(host.mutable_data_ptr(), t.data.data(), t.data.size());
      out.push_back(host.to(backing().device()));
    }
    return out;
  }

  // The recorded call itself, which takes numbers in its own types only.
  Tensors external(const ir::Node& n, const Tensors& in) {
    std::vector<jit::BufferView> views;
    Tensors own;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i >= ir::memory_operands(n).size()) {
        views.push_back({.number = in[i].item<int64_t>()});
        continue;
      }
      if (!in[i].defined()) {
        views.push_back({});
        continue;
      }
      const ir::Type& type = graph_.type(n.inputs[i]);
      own.push_back(narrow(in[i], type.dtype).contiguous());
      views.push_back({buffer_of(own.back()), type, ir::contiguous_strides(type.shape), 0});
    }
    const auto buffers = run_external(n.attrs.number(0), "", views, n.types, /*counted=*/false);
    Tensors out;
    for (size_t r = 0; r < buffers.size(); ++r) {
      const ir::Type& t = n.types[r];
      out.push_back(as_here(tensor_over(buffers[r], t), t.dtype));
      if (noise_ && ir::is_floating(t.dtype))
        out.back() = moved(out.back(), out.back().abs().mul_(4 * spacing(t.dtype).relative), t.dtype);
    }
    return out;
  }

  // `x` with each element moved by up to `by`, and by the type's smallest step.
  Tensor moved(const Tensor& x, const Tensor& by, ir::DType t) const {
    return x + uniform_like(x, *noise_) * (by + spacing(t).absolute);
  }

  // Whether the row's formula has steps, which round each and may cancel: not only its result is off.
  bool rounds_inside(const ir::Node& n) const {
    if (!ir::is_elementwise(n.op) || ir::is_exact(n.op) || n.op == Op::convert || !ir::is_floating(n.types[0].dtype))
      return false;
    std::vector<ir::DType> types;
    for (ir::Value v : n.inputs) types.push_back(ir::compute_type(graph_.type(v).dtype));
    const ir::Program formula = ir::expand_body(n.op, types, ir::compute_type(n.types[0].dtype));
    return std::ranges::count_if(formula.graph.nodes(),
                                 [](const ir::ScalarNode& s) { return ir::info(s.prim).arity > 0; }) > 1;
  }

  void move_operands(const ir::Node& n, Tensors& in) const {
    for (size_t i = 0; i < in.size(); ++i) {
      const ir::DType t = ir::compute_type(graph_.type(n.inputs[i]).dtype);
      if (in[i].defined() && ir::is_floating(t)) in[i] = moved(in[i], in[i].abs() * spacing(t).relative, t);
    }
  }

  void add_noise(const ir::Node& n, const Tensors& in, Tensors& out) const {
    if (ir::is_composite(n.op) || ir::is_exact(n.op)) return;
    for (size_t r = 0; r < out.size(); ++r) {
      const ir::DType t = n.types[r].dtype;
      if (!ir::is_floating(t)) continue;
      if (n.op == Op::convert) {
        const ir::DType from = graph_.type(n.inputs[0]).dtype;
        if (ir::is_floating(from) && spacing(from).relative >= spacing(t).relative) continue;
      }
      Tensor by = out[r].abs() * (2 * spacing(t).relative);
      if (const Tensor hidden = hides(n, in); hidden.defined())
        by += hidden * (2 * spacing(ir::compute_type(t)).relative);
      // Hidden states lie in [-1, 1], and none is more exact than what the step before gave.
      if (const int64_t count = terms(graph_, n))
        by += ir::is_recurrent(n.op)
                  ? (out[r].abs() + 1) * (spacing(t).relative * std::sqrt(static_cast<double>(count)))
              : is_attention(n.op) ? attended(n, in, out, r, count)
                                   : accumulated(n, in, out[r], t, count);
      out[r] = moved(out[r], by, t);
    }
  }

  // The size of a step whose rounding the result does not show: the one in x (1 + erf) / 2 may all but cancel.
  static Tensor hides(const ir::Node& n, const Tensors& in) {
    switch (n.op) {
      case Op::gelu:
      case Op::gelu_tanh:
      case Op::gelu_backward:       // by the cotangent
      case Op::gelu_tanh_backward:  // likewise
        return in[0].abs();
      default:
        return {};
    }
  }

  // What adding up so many terms one after the other may be off by: each addition rounds a partial sum, which is at
  // most about as large as the result or, where signs are mixed, as the root of the terms' squares.
  Tensor accumulated(const ir::Node& n, const Tensors& in, const Tensor& result, ir::DType t, int64_t count) const {
    double step = spacing(ir::compute_type(t)).relative * std::sqrt(static_cast<double>(count)) / 2;
    // Tensor cores may round factors to ten bits.
    if (backing().has_tensor_cores && t == ir::DType::F32 && ir::is_contraction(n.op)) step += 0x1p-10;
    Tensor size = result.abs();
    if (n.op != Op::prod && n.op != Op::cumprod) {
      Tensors squares;
      for (const Tensor& x : in) squares.push_back(x.defined() && x.is_floating_point() ? x.square() : x);
      if (auto made = torch_row(n, squares)) size = size + (*made)[0].clamp_min(0).sqrt();
    }
    return size * step;
  }

  static bool is_attention(Op op) { return op == Op::attention || op == Op::attention_backward; }

  // The same of attention, whose exponentials are off by as much as scores are, which rounding moves by a part of
  // themselves.
  Tensor attended(const ir::Node& n, const Tensors& in, const Tensors& out, size_t r, int64_t count) const {
    constexpr double kMostScore = 1e3;  // beyond, a mask hides all but itself
    const Tensor largest = (n.op == Op::attention ? out[1] : in[5]).slice(3, 0, 1).abs().clamp_max(kMostScore).amax();
    const double step = spacing(n.types[r].dtype).relative * std::sqrt(static_cast<double>(count)) / 2;
    return (out[r].abs() + out[r].square().mean().sqrt()).nan_to_num() * (1 + largest) * step;
  }

  const Reference& how_;
  const ir::Graph& graph_;
  const std::span<const Tensor> inputs_;
  const std::span<const int64_t> scalars_;
  at::Generator* const noise_;
  std::vector<Tensors> values_;  // by node and result
};

}  // namespace

std::vector<at::Tensor> Reference::run(const ir::Graph& graph, std::span<const at::Tensor> inputs,
                                       std::span<const int64_t> scalars) const {
  std::optional<at::Generator> noise;
  if (numbers == Numbers::Noisy) noise = make_generator(0x5eed + seed);
  return Run(*this, graph, inputs, scalars, noise ? &*noise : nullptr).run();
}

std::map<std::string, int64_t> take_interpreted_rows() {
  std::lock_guard lock(interpreted().mutex);
  return std::exchange(interpreted().rows, {});
}

Spacing spacing(ir::DType type) {
  switch (type) {
    case ir::DType::F16:
      return {0x1p-10, 0x1p-24};
    case ir::DType::BF16:
      return {0x1p-7, 0x1p-126};
    case ir::DType::F32:
      return {0x1p-23, 0x1p-126};
    case ir::DType::F64:
      return {0x1p-52, 0x1p-1022};
    default:
      return {};
  }
}

}  // namespace lazuli::lazy
