#include "backend/autograd/light_node.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include "backend/record/operands.h"
#include "backend/torch_internals/node_creation.h"
#include "backend/torch_internals/vmap.h"
#include "ir/error.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;
using autograd::variable_list;

// The edge to which a tensor's gradient flows; invalid when it needs none.
autograd::Edge edge_of(const Tensor& t) {
  return t.requires_grad() ? autograd::impl::gradient_edge(t) : autograd::Edge();
}

void set_history(const Tensor& t, autograd::Edge edge) {
  auto* impl = t.unsafeGetTensorImpl();
  if (!impl->autograd_meta()) impl->set_autograd_meta(std::make_unique<autograd::AutogradMeta>());
  autograd::impl::set_gradient_edge(t, std::move(edge));
}

// The vmap that batches a gradient; null: none.
const Vmap* vmap_of(const Tensor& g) {
  for (const Vmap* v : {&vmap_of_func, &vmap_of_autograd})
    if (g.defined() && v->level(g)) return v;
  return nullptr;
}

// The history of a gradient that torch counts as a function of operands which it does not depend on.
struct ConstantGradient final : autograd::Node {
  explicit ConstantGradient(autograd::Edge to) {
    if (to.is_valid()) add_next_edge(std::move(to));  // of an operand with the gradient's shape
  }
  variable_list apply(variable_list&& gradients) override {
    return num_outputs() && gradients[0].defined() ? variable_list{at::zeros_like(gradients[0])}
                                                   : variable_list(num_outputs());
  }
};
void set_history_of_constant(const Tensor& t, autograd::Edge to) {
  auto node = own_node(new ConstantGradient(std::move(to)));
  node->add_input_metadata(t);
  set_history(t, {std::move(node), 0});
}

}  // namespace

void add_output(autograd::Node& node, const Step::Output& out) {
  if (!out.flows) {
    node.add_input_metadata(autograd::Node::undefined_input());
    return;
  }
  c10::SymDimVector sizes(out.sizes.begin(), out.sizes.end());
  node.add_input_metadata(c10::TensorOptions(out.type).device(lazy::device()).layout(c10::kStrided), sizes, false,
                          false, out.type);
}

void LightNode::release_variables() {
  lifted_.reset();
  Operation dropped(nullptr);  // before the lock: destroyed after it
  std::lock_guard lock(graph_mutex());
  dropped = operation_.release();
}

variable_list LightNode::record(const variable_list& gradients, uint64_t needs) {
  variable_list out(next_edges_.size());
  c10::SmallVector<ir::Value, 4> in, results(out.size());
  lazy::Recording r;
  for (const Tensor& g : gradients) in.push_back(g.defined() ? r.value(g) : ir::Value{});
  std::lock_guard lock(graph_mutex());
  operation_.backward(r, {in.data(), in.size()}, needs, {results.data(), results.size()});
  for (size_t i = 0; i < out.size(); ++i)
    if (results[i]) out[i] = operation_.input_gradient(r, i, results[i]);
  return out;
}

namespace {

// What a derivative is a function of, for the tape, and where gradients of that go. Null: what no tensor here holds.
struct TapeOperands {
  autograd::edge_list edges;
  c10::SmallVector<const Tensor*, 8> tensors;
  uint64_t wanted = 0;
  void add(autograd::Edge edge, const Tensor* t) {
    if (edge.is_valid()) wanted |= uint64_t{1} << edges.size();
    edges.push_back(std::move(edge));
    tensors.push_back(t);
  }
};

// Of results whose derivative is not known: who asks for it is told.
void refuse_derivatives(const variable_list& results, const std::string& name) {
  for (const Tensor& t : results)
    if (t.defined()) {
      auto error = own_node(new autograd::NotImplemented(name));
      error->add_input_metadata(t);
      autograd::impl::set_gradient_edge(t, {std::move(error), 0});
    }
}

}  // namespace

// The same, while a tape notes it: over the gradients, then this node's inputs, then its outputs, the latter two as far
// as backward reads them.
variable_list LightNode::record_differentiably(const variable_list& gradients, uint64_t needs, NodePointer<>& made) {
  {
    std::lock_guard lock(lazy::recorder().mutex);
    operation_.segment().settle(lazy::recorder().trace);
  }
  const lazy::Fragment& fragment = *operation_.segment().fragment;
  const NodeTraits traits = operation_.traits();
  bool is_read = false;  // some operand of torch's derivative requires a gradient
  for (size_t i = 0; i < next_edges_.size(); ++i) is_read |= traits.read >> i & 1 && next_edges_[i].is_valid();
  const size_t inputs = next_edges_.size(), outputs = fragment.outputs.size();
  TapeOperands of;
  for (const Tensor& g : gradients) of.add(g.defined() ? edge_of(g) : autograd::Edge(), &g);
  for (const autograd::Edge& e : next_edges_) of.add(e, nullptr);
  for (size_t i = 0; i < outputs; ++i) of.add({getptr(), static_cast<uint32_t>(i)}, nullptr);
  TORCH_CHECK(of.edges.size() <= 64, "lazuli: ", name(), " has too many operands to be differentiated twice");
  auto node = make(operation_.name(), at::sequence_number::get_and_increment(), std::move(of.edges));
  variable_list out(inputs);
  c10::SmallVector<const Tensor*, 4> results;
  const size_t first_result = gradients.size() + inputs;
  lazy::DerivativeTape tape({of.tensors.data(), gradients.size()}, of.wanted, fragment,
                            static_cast<uint16_t>(gradients.size()), static_cast<uint16_t>(first_result));
  out = record(gradients, needs);
  for (const Tensor& t : out) results.push_back(&t);
  lazy::Saved saved = tape.finish({results.data(), results.size()});
  if (!saved.differentiable) return refuse_derivatives(out, name()), out;
  // Where no gradient flows the engine must not go: a hook there would be called, with none. Nor to what is no
  // operand of torch's derivative, as a bias.
  const uint64_t no_operands = traits.read ? ((uint64_t{1} << inputs) - 1) & ~uint64_t{traits.read} : 0;
  const uint64_t reached = saved.reached & ~(no_operands << gradients.size());
  for (size_t i = 0; i < of.tensors.size(); ++i)
    if (!(reached >> i & 1)) node->set_next_edge(i, {});
  operation_.share_kept(node->operation_, saved.inputs, gradients.size(), first_result);
  saved.inputs &= (uint64_t{1} << gradients.size()) - 1;
  node->operation_.note(tape.segment(), saved, {of.tensors.data(), of.tensors.size()},
                        {results.data(), results.size()});
  for (size_t i = 0; i < results.size(); ++i) {
    Step::Output o;
    if (saved.flowing >> i & 1) Step::describe(o, *results[i]);
    add_output(*node, o);
    if (o.flows)
      set_history(*results[i], {node, static_cast<uint32_t>(i)});
    else if (results[i]->defined() && is_read)
      set_history_of_constant(*results[i],
                              traits.constant == NodeTraits::GivesZeros ? next_edges_[i] : autograd::Edge());
  }
  made = node;
  return out;
}

// Batched gradients: backward of each, and the batch of that.
variable_list LightNode::one_by_one(const variable_list& gradients) {
  const Vmap* vmap = nullptr;
  int64_t level = 0, count = 0;
  for (const Tensor& g : gradients) {
    const Vmap* v = vmap_of(g);
    TORCH_CHECK_NOT_IMPLEMENTED(!g.defined() || v || is_plain(g), "lazuli: ", name(),
                                " cannot take a gradient of type ", g.toString(),
                                ": only plain and batched tensors of the device can flow through it");
    if (!v || v->level(g) <= level) continue;
    vmap = v;
    level = v->level(g);
    count = v->size(g);
  }
  std::vector<std::vector<Tensor>> parts(next_edges_.size());
  for (int64_t i = 0; i < count; ++i) {
    variable_list slice;
    for (const Tensor& g : gradients)
      slice.push_back(vmap_of(g) == vmap && vmap->level(g) == level ? vmap->part(g, i) : g);
    variable_list out = apply(std::move(slice));
    for (size_t j = 0; j < out.size(); ++j)
      if (out[j].defined()) parts[j].push_back(out[j]);
  }
  variable_list out(parts.size());
  for (size_t j = 0; j < parts.size(); ++j)
    if (!parts[j].empty()) out[j] = vmap->batch(at::stack(parts[j]), level);
  return out;
}

variable_list LightNode::apply(variable_list&& gradients) {
  bool any = false, plain = true;
  for (Tensor& g : gradients) {
    any |= g.defined();
    if (g.defined() && g._is_zerotensor()) g = at::zeros(g.sizes(), g.options());
    if (g.defined() && g.is_neg()) g = g.resolve_neg();
    plain &= !g.defined() || is_plain(g);
  }
  if (!any) return variable_list(next_edges_.size());
  if (operation_.view() && (!plain || c10::GradMode::is_enabled())) return operation_.view()->gradients(gradients);
  if (!plain) return one_by_one(gradients);
  variable_list out;
  NodePointer<> made;
  {
    std::lock_guard lock(mutex_);
    operation_.check();
    uint64_t needs = 0;
    for (size_t i = 0; i < next_edges_.size(); ++i)
      if (task_should_compute_output(i)) needs |= mask_of(i);
    out = c10::GradMode::is_enabled() ? record_differentiably(gradients, needs, made) : record(gradients, needs);
  }
  if (made && tells_of_nodes()) tell_of_node(made);
  return out;
}

}  // namespace lazuli::backend
