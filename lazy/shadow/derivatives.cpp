#include "lazy/shadow/derivatives.h"

#include <queue>
#include <thread>
#include <unordered_set>
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>
#include "lazy/memory/backing.h"
#include "lazy/shadow/reference.h"
#include "lazy/support/convert.h"
#include "lazy/support/plain_dispatch.h"
#include "lazy/support/source.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using torch::autograd::Edge;
using torch::autograd::Node;
using NodePointer = decltype(Edge::function);  // depends on torch's version
using Tensors = std::vector<Tensor>;
using Numbers = Reference::Numbers;

// Torch's operators with autograd, whatever this thread is under.
struct WithAutograd {
  c10::InferenceMode normal{false};
  c10::impl::ForceDispatchKeyGuard keys{c10::default_included_set,
                                        c10::default_excluded_set | c10::autocast_dispatch_keyset};
  at::AutoGradMode grad{true};
};

// Reverse mode over torch's nodes, on this thread: torch's engine may be what called us. Gradients of leaves, by leaf.
class Backward {
 public:
  void give(const Edge& to, const Tensor& g) {
    if (!to.function || !g.defined()) return;
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(to.function.get()))
      return add(leaves_[leaf->variable.unsafeGetTensorImpl()], at::sum_to(g, leaf->variable.sizes()));
    auto [it, fresh] = waiting_.try_emplace(to.function.get(), to.function->num_inputs());
    if (fresh) order_.push(to.function);
    // As torch's engine does, since nodes may leave it to that.
    add(it->second[to.input_nr], at::sum_to(g, to.function->input_metadata(to.input_nr).shape_as_dim_vector()));
  }
  void run() {
    at::AutoGradMode off(false);
    while (!order_.empty()) {
      const NodePointer node = order_.top();
      order_.pop();
      auto inputs = std::move(waiting_.extract(node.get()).mapped());
      const auto outputs = (*node)(std::move(inputs));
      for (size_t i = 0; i < outputs.size(); ++i) give(node->next_edge(i), outputs[i]);
    }
  }
  Tensor of(const Tensor& leaf) const {
    auto it = leaves_.find(leaf.unsafeGetTensorImpl());
    return it == leaves_.end() ? at::zeros_like(leaf).detach() : it->second;
  }

 private:
  static void add(Tensor& sum, const Tensor& g) { sum = sum.defined() ? sum + g : g; }
  // What was made later comes first.
  struct Earlier {
    bool operator()(const NodePointer& a, const NodePointer& b) const { return a->sequence_nr() < b->sequence_nr(); }
  };
  std::priority_queue<NodePointer, std::vector<NodePointer>, Earlier> order_;
  std::unordered_map<Node*, torch::autograd::variable_list> waiting_;
  std::unordered_map<c10::TensorImpl*, Tensor> leaves_;
};

// One derivative: the rows of the op, and those of its derivative.
struct Noted {
  uint32_t node = 0;
  std::vector<ir::Value> outputs, cotangents, reads, gradients;
  ir::Portion forward, backward;
  size_t first_value = 0;  // of those that are asked for: forward's inputs, backward's, cotangents
};

// By number in the trace.
std::vector<ir::Value> values_of(const ir::Graph& graph) {
  std::vector<ir::Value> values;
  for (uint32_t id = 0; id < graph.nodes.size(); ++id)
    for (uint32_t r = 0; r < graph.nodes[id].types.size(); ++r) values.push_back({id, r});
  return values;
}

std::optional<Noted> note(const ir::Graph& graph, std::span<const ir::Value> values, const Derivative& d) {
  Noted n;
  for (auto [value, gradient] : d.outputs) n.outputs.push_back(values[value]), n.cotangents.push_back(values[gradient]);
  for (auto [value, gradient] : d.reads) n.reads.push_back(values[value]), n.gradients.push_back(values[gradient]);
  if (n.outputs.empty() || n.reads.empty()) return {};
  n.node = d.begin;
  for (uint32_t id = d.begin; id < d.end; ++id)
    if (!ir::is_leaf(graph.nodes[id].op) && !ir::is_view(graph.nodes[id].op)) n.node = id;
  std::unordered_set<uint32_t> reads, cotangents;
  for (ir::Value v : n.reads) reads.insert(v.node);
  for (ir::Value v : n.cotangents) cotangents.insert(v.node);
  n.forward = ir::cut(graph, n.outputs, [&](uint32_t id) { return id < d.begin || reads.contains(id); });
  n.backward = ir::cut(graph, n.gradients, [&](uint32_t id) { return id < d.end || cotangents.contains(id); });
  return n;
}

Case case_of(const Case& whole, const ir::Portion& p, std::span<const Tensor> inputs) {
  Case c{p.graph, {inputs.begin(), inputs.end()}, {}};
  for (uint32_t s : p.scalars) c.scalars.push_back(whole.scalars[s]);
  return c;
}

Tensors run(const Case& c, Numbers numbers, bool decomposed = false, uint64_t seed = 0) {
  return Reference{.numbers = numbers, .decomposed = decomposed, .seed = seed}.run(c.graph, c.inputs, c.scalars);
}

// By torch's autograd over the op's rows; by output of `backward`.
Tensors torchs_gradients(const DerivativeCase& c) {
  WithAutograd guard;
  Case forward = c.forward;
  for (int64_t i : c.reads)
    if (i >= 0) forward.inputs[i] = c.forward.inputs[i].detach().clone().requires_grad_(true);
  const Tensors outputs = run(forward, Numbers::Double);
  Backward backward;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].requires_grad())
      backward.give(torch::autograd::impl::gradient_edge(outputs[i]), c.cotangents[i].reshape(outputs[i].sizes()));
  backward.run();
  Tensors gradients;
  for (int64_t i : c.reads) gradients.push_back(i >= 0 ? backward.of(forward.inputs[i]).detach() : Tensor());
  return gradients;
}

// Elements that differ by more than rounding in the recorded rows explains.
std::optional<Difference> compare(const Case& backward, size_t output, const Tensor& ours, const Tensor& torchs) {
  constexpr int kRuns = 6;
  const double step = spacing(backward.graph.type(backward.graph.outputs[output]).dtype).relative;
  const Tensor by = (ours - torchs).abs();
  const auto differs = [&](const Tensor& bound) {
    return (by.le(bound) | (ours.isnan() & torchs.isnan()) | ours.eq(torchs)).logical_not();
  };
  if (!differs(torchs.abs() * (step / 4)).any().item<bool>()) return {};
  const Tensor plain = run(backward, Numbers::Double, true)[output];
  Tensor spread = at::zeros_like(ours);
  for (uint64_t seed = 0; seed < kRuns; ++seed)
    spread = at::maximum(spread, (run(backward, Numbers::Noisy, true, seed)[output] - plain).abs());
  // Torch's formulas round too, in float64, and may cancel.
  const Tensor bound = spread * 8 + torchs.abs() * (8 * step) + torchs.abs().max() * 1e-13 + 1e-30,
               real = differs(bound);
  if (!real.any().item<bool>()) return {};
  Tensor excess = at::where(real, by / bound, -1.0);
  excess = at::where(excess.isnan(), INFINITY, excess);
  const int64_t worst = excess.argmax().item<int64_t>();
  Difference d{.output = output, .index = {}, .elements = real.sum().item<int64_t>(), .shape = {}};
  int64_t flat = worst;
  d.index.resize(static_cast<size_t>(ours.dim()));
  for (size_t k = d.index.size(); k-- > 0; flat /= ours.size(static_cast<int64_t>(k)))
    d.index[k] = flat % ours.size(static_cast<int64_t>(k));
  const auto element = [&](const Tensor& t) { return t.flatten()[worst].item<double>(); };
  d.ours = element(ours), d.eager = d.exact = element(torchs), d.explained = element(bound);
  return d;
}

// On a thread of its own: a trace may end inside a backward, whose state on this thread says to nodes what of them is
// wanted.
template <class F>
void apart(F call) {
  const auto stream = backing().overlaps_host ? std::optional(backing().current_stream()) : std::nullopt;
  std::exception_ptr thrown;
  WithoutPython released;  // nodes may be Python's
  std::thread([&] {
    try {
      const lowering::OneThread one;
      c10::OptionalStreamGuard guard(stream);
      PlainDispatch plain;
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace

std::optional<Difference> judge_derivative(const DerivativeCase& c, bool& compared) {
  Tensors torchs;
  try {
    torchs = torchs_gradients(c);
  } catch (const NotDifferentiable&) {
    return {};
  }
  compared = true;
  const Tensors ours = run(c.backward, Numbers::Double);
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!torchs[i].defined() || !ours[i].numel()) continue;
    if (auto d = compare(c.backward, i, ours[i], torchs[i])) return d;
  }
  return {};
}

namespace {

std::optional<WrongDerivative> judge_here(const Case& whole, std::span<const Derivative> derivatives,
                                          int64_t& compared) {
  const std::vector<ir::Value> values = values_of(whole.graph);
  std::vector<Noted> all;
  Case asked = whole;
  asked.graph.outputs.clear();
  auto ask = [&](std::span<const ir::Value> wanted) {
    asked.graph.outputs.insert(asked.graph.outputs.end(), wanted.begin(), wanted.end());
  };
  for (const Derivative& d : derivatives) {
    auto n = note(whole.graph, values, d);
    if (!n) continue;
    n->first_value = asked.graph.outputs.size();
    ask(n->forward.inputs), ask(n->backward.inputs), ask(n->cotangents);
    all.push_back(*std::move(n));
  }
  if (all.empty()) return {};
  const Tensors known = run(asked, Numbers::Double);
  for (const Noted& n : all) {
    std::span<const Tensor> rest(known.begin() + static_cast<ptrdiff_t>(n.first_value), known.end());
    auto take = [&](size_t count) {
      auto taken = rest.first(count);
      rest = rest.subspan(count);
      return taken;
    };
    DerivativeCase c;
    c.forward = case_of(whole, n.forward, take(n.forward.inputs.size()));
    c.backward = case_of(whole, n.backward, take(n.backward.inputs.size()));
    const auto cotangents = take(n.cotangents.size());
    c.cotangents.assign(cotangents.begin(), cotangents.end());
    for (ir::Value v : n.reads) {
      const auto at = std::ranges::find(n.forward.inputs, v);
      c.reads.push_back(at == n.forward.inputs.end() ? -1 : at - n.forward.inputs.begin());
    }
    bool was_compared = false;
    auto d = judge_derivative(c, was_compared);
    compared += was_compared;
    if (d) return WrongDerivative{n.node, whole.graph.type(n.gradients[d->output]), *std::move(d), std::move(c)};
  }
  return {};
}

}  // namespace

std::optional<WrongDerivative> judge_derivatives(const Case& whole, std::span<const Derivative> derivatives,
                                                 int64_t& compared) {
  std::optional<WrongDerivative> wrong;
  if (!derivatives.empty()) apart([&] { wrong = judge_here(whole, derivatives, compared); });
  return wrong;
}

}  // namespace lazuli::lazy
