#include "backend/autograd/nodes_on_demand.h"

#include <ATen/core/VariableHooksInterface.h>
#include "backend/autograd/light_node.h"
#include "lazy/support/metrics.h"

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
void give_node(Step& s, std::shared_ptr<LightNode> node, std::vector<c10::SmallVector<History, 3>>& dropped) {
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

class Hooks final : public at::impl::VariableHooksInterface {
 public:
  Hooks(const at::impl::VariableHooksInterface& torch, const RootNodes& roots) : torch_(torch), roots_(roots) {}

  const std::shared_ptr<autograd::Node>& grad_fn(const TensorBase& t) const override {
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

  TensorBase tensor_data(const TensorBase& t) const override { return torch_.tensor_data(t); }
  TensorBase variable_data(const TensorBase& t) const override { return torch_.variable_data(t); }
  void remove_hook(const TensorBase& t, unsigned position) const override { torch_.remove_hook(t, position); }
  bool is_view(const TensorBase& t) const override { return torch_.is_view(t); }
  const TensorBase& base(const TensorBase& t) const override { return torch_.base(t); }
  const std::string& name(const TensorBase& t) const override { return torch_.name(t); }
  TensorBase data(const TensorBase& t) const override { return torch_.data(t); }
  int64_t _version(const TensorBase& t) const override { return torch_._version(t); }
  bool retains_grad(const TensorBase& t) const override { return torch_.retains_grad(t); }
  void _backward(const at::Tensor& t, at::TensorList inputs, const std::optional<at::Tensor>& gradient,
                 std::optional<bool> keep_graph, bool create_graph) const override {
    torch_._backward(t, inputs, gradient, keep_graph, create_graph);
  }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                               torch::jit::Stack* stack) const override {
    torch_.basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& t) const override { return torch_.grad_dtype(t); }

 private:
  static const TensorBase& with_node(const TensorBase& t) {
    if (t.defined()) materialize(t);
    return t;
  }
  const at::impl::VariableHooksInterface& torch_;
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

std::shared_ptr<LightNode> node_of(Step& step) {
  const std::vector<StepRef> wanted = find_wanted(step);
  // Without the lock: in anomaly mode a node notes the Python stack, for which it waits until this thread may run
  // Python.
  std::vector<std::shared_ptr<LightNode>> nodes;
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
  std::shared_ptr<LightNode> node = node_of(*own.step());
  std::lock_guard lock(graph_mutex());
  if (StepOf(meta_of(t))) own.become(std::move(node));
}

void forget_step(const TensorBase& t) {
  if (const StepOf own(meta_of(t)); own && !meta_of(t)->is_view_) own.forget();
}

void install_hooks(const RootNodes& roots) {
  static auto* hooks = new Hooks(*at::impl::GetVariableHooks(), roots);
  at::impl::SetVariableHooks(hooks);
}

}  // namespace lazuli::backend
