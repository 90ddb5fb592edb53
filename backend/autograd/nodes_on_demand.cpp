#include "backend/autograd/nodes_on_demand.h"

#include "backend/autograd/light_node.h"
#include "backend/torch_internals/tensor_hooks.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"
#include "lazy/support/source.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::TensorBase;

// Steps that are to get nodes, each after those that it takes anything from.
std::vector<StepRef> find_wanted(Step& step) {
  std::vector<StepRef> wanted;
  std::lock_guard lock(graph_mutex());
  if (step.node) return wanted;
  std::vector<Step*> open{&step};
  while (!open.empty()) {
    Step& s = *open.back();
    const size_t before = open.size();
    for (const History& h : s.inputs)
      if (h.kind() == History::Kind::Step && !h.step().node && !h.step().place) open.push_back(&h.step());
    if (open.size() > before) continue;
    open.pop_back();
    if (std::exchange(s.place, 1)) continue;
    wanted.push_back(StepRef::share(&s));
  }
  for (const StepRef& s : wanted) s->place = 0;
  return wanted;
}

// Makes the node the step's. What the step no longer needs goes to `dropped`.
void give_node(Step& s, NodePointer<LightNode> node, std::vector<c10::SmallVector<History, 3>>& dropped) {
  autograd::edge_list edges;
  edges.reserve(s.inputs.size());
  for (const History& h : s.inputs) edges.push_back(edge_of(h));
  node->set_next_edges(std::move(edges));
  for (const Step::Output& out : s.outputs) add_output(*node, out);
  node->operation() = std::move(s.own_operation);
  s.node = std::move(node);
  ++lazy::metrics().autograd_nodes;
  dropped.push_back(std::move(s.inputs));
  s.inputs.clear();
}

// Somebody asked for a node: explain() says at which line, and through which of torch's Python functions.
void note_node() {
  if (!lazy::config().source_lines) return;
  const uint32_t line = lazy::current_line();
  lazy::metrics().noticed("autograd node", lazy::current_function(), lazy::line_text(line));
}

class Hooks final : public TensorHooks {
 public:
  Hooks(const at::impl::VariableHooksInterface& torch, const RootNodes& roots) : TensorHooks(torch), roots_(roots) {}

  const NodePointer<>& grad_fn(const TensorBase& t) const override {
    if (t.defined() && StepOf(meta_of(t))) {
      if (auto* root = roots_.node(t.unsafeGetTensorImpl())) return *root;
      materialize(t);
    }
    return torch_.grad_fn(t);
  }
  int64_t output_nr(const TensorBase& t) const override {
    const StepOf own(t.defined() ? meta_of(t) : nullptr);
    if (!own) return torch_.output_nr(t);
    const int64_t number = roots_.number(t.unsafeGetTensorImpl());
    return number < 0 ? own.output() : number;
  }
  bool is_leaf(const TensorBase& t) const override { return !(t.defined() && StepOf(meta_of(t))) && torch_.is_leaf(t); }

  // These may read the metadata directly.
  void set_data(const TensorBase& t, const TensorBase& data) const override { torch_.set_data(with_node(t), data); }
  void retain_grad(const TensorBase& t) const override { torch_.retain_grad(with_node(t)); }
  unsigned _register_hook(const TensorBase& t, std::function<TensorBase(const TensorBase&)> hook) const override {
    return torch_._register_hook(with_node(t), std::move(hook));
  }
  void requires_grad_(const TensorBase& t, bool value) const override { torch_.requires_grad_(with_node(t), value); }
  void set_grad_dtype(const TensorBase& t, const std::optional<c10::ScalarType>& type) const override {
    torch_.set_grad_dtype(with_node(t), type);
  }

 private:
  static const TensorBase& with_node(const TensorBase& t) {
    if (t.defined()) materialize(t);
    return t;
  }
  const RootNodes roots_;
};

}  // namespace

autograd::Edge edge_of(const History& h) {
  switch (h.kind()) {
    case History::Kind::None:
      break;
    case History::Kind::Step:
      return {h.step().node, h.number()};
    case History::Kind::Node:
      return {h.node(), h.number()};
  }
  return {};
}

NodePointer<LightNode> node_of(Step& step) {
  const std::vector<StepRef> wanted = find_wanted(step);
  if (!wanted.empty()) note_node();
  // Without the lock: in anomaly mode a node notes the Python stack, for which it waits until this thread may run
  // Python.
  std::vector<NodePointer<LightNode>> nodes;
  for (const StepRef& s : wanted) nodes.push_back(s->kind.make(s->kind.name, s->sequence, {}));
  std::vector<c10::SmallVector<History, 3>> dropped;  // before the lock, as what was made in vain: destroyed after it
  std::lock_guard lock(graph_mutex());
  for (size_t i = 0; i < nodes.size(); ++i)
    if (!wanted[i]->node) give_node(*wanted[i], std::move(nodes[i]), dropped);
  return step.node;
}

void materialize(const TensorBase& t) {
  const StepOf own(meta_of(t));
  if (!own) return;
  NodePointer<LightNode> node = node_of(*own.step());
  std::lock_guard lock(graph_mutex());
  if (StepOf(meta_of(t))) own.become(std::move(node));
}

void forget_step(const TensorBase& t) {
  if (const StepOf own(meta_of(t)); own && !is_view(*meta_of(t))) own.forget();
}

void install_hooks(const RootNodes& roots) {
  static auto* hooks = new Hooks(tensor_hooks(), roots);
  replace_tensor_hooks(*hooks);
}

}  // namespace lazuli::backend
