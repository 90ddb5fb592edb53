#include "backend/autograd/light_node.h"

#include <ATen/functorch/BatchedTensorImpl.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include "backend/operands.h"
#include "ir/error.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;
using autograd::variable_list;

class PooledMeta final : public autograd::AutogradMeta, public lazy::Pooled<PooledMeta, 320> {
 public:
  using lazy::Pooled<PooledMeta, 320>::operator new;
  using lazy::Pooled<PooledMeta, 320>::operator delete;
};

c10::TensorOptions options_of(const c10::TensorImpl& t) { return c10::TensorOptions(t.dtype()).device(lazy::device()).layout(c10::kStrided); }

Tensor without_history(const Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  return Tensor(impl->shallow_copy_and_detach(impl->version_counter(), /*allow_metadata_change=*/true));
}

void set_history(const Tensor& t, std::shared_ptr<LightNode> node, uint32_t output) {
  auto* impl = t.unsafeGetTensorImpl();
  if (impl->autograd_meta()) return autograd::impl::set_gradient_edge(t, {std::move(node), output});
  std::unique_ptr<PooledMeta> meta(new PooledMeta);
  meta->grad_fn_ = std::move(node);
  meta->output_nr_ = output;
  impl->set_autograd_meta(std::move(meta));
}

}  // namespace

bool is_plain(const Tensor& t) {
  using K = c10::DispatchKey;
  static const uint64_t known = (c10::DispatchKeySet(K::PrivateUse1) | c10::DispatchKeySet(K::AutogradPrivateUse1) |
                                 c10::DispatchKeySet(K::ADInplaceOrView) | c10::DispatchKeySet(K::AutocastPrivateUse1))
                                    .raw_repr();
  return !(t.unsafeGetTensorImpl()->key_set().raw_repr() & ~known);
}

autograd::Edge edge_of(const Tensor& t) {
  auto* meta = static_cast<autograd::AutogradMeta*>(t.unsafeGetTensorImpl()->autograd_meta());
  if (!meta || !meta->requires_grad()) return {};
  if (!meta->is_view_ && meta->grad_fn_) return {meta->grad_fn_, meta->output_nr_};
  if (!meta->is_view_) return {autograd::impl::grad_accumulator(t), 0};
  return autograd::impl::gradient_edge(t);
}

void LightNode::keep(bool input, size_t index, Tensor t) {
  Kept& k = kept_.emplace_back();
  k.cell = lazy::storage_of(t).cell();
  k.version = t.unsafeGetTensorImpl()->version_counter().current_version();
  k.input = input;
  k.index = static_cast<uint16_t>(index);
  k.tensor = std::move(t);
}

c10::SmallVector<lazy::Replaced, 2> LightNode::replaced(lazy::Recording& r) const {
  c10::SmallVector<lazy::Replaced, 2> out;
  for (const Kept& k : kept_)
    if (lazy::storage_of(k.tensor).cell() != k.cell) out.push_back({k.input, k.index, r.value(k.tensor)});
  return out;
}

void LightNode::attach(std::shared_ptr<LightNode> node, lazy::SegmentRef segment, const lazy::Saved& saved, Tensors inputs,
                       Tensors results) {
  for (size_t i = 0; saved.inputs >> i; ++i)
    if (saved.inputs >> i & 1) node->keep(true, i, *inputs[i]);
  for (size_t i = 0; i < results.size(); ++i) {
    if (saved.outputs >> i & 1) node->keep(false, i, without_history(*results[i]));
    if (!(saved.flowing >> i & 1)) {
      node->add_input_metadata(undefined_input());
      continue;
    }
    auto* t = results[i]->unsafeGetTensorImpl();
    uint32_t number = node->add_input_metadata(options_of(*t), t->sym_sizes(), false, false, c10::typeMetaToScalarType(t->dtype()));
    set_history(*results[i], node, number);
  }
  node->keeps_ = saved.any;
  node->segment_ = std::move(segment);
}

void LightNode::release_variables() {
  if (!keeps_) return;  // as good for another backward
  std::lock_guard lock(mutex_);
  released_ = true;
  segment_ = {};
  kept_.clear();
}

void LightNode::check() const {
  TORCH_CHECK(!released_, autograd::ERR_BACKWARD_TWICE);
  for (const Kept& k : kept_) {
    uint32_t now = k.tensor.unsafeGetTensorImpl()->version_counter().current_version();
    if (now == k.version) continue;
    std::ostringstream text;
    text << "one of the variables needed for gradient computation has been modified by an inplace operation: ["
         << k.tensor.toString() << ' ' << k.tensor.sizes() << ']';
    const autograd::Node* producer = k.input ? k.tensor.grad_fn().get() : this;
    uint32_t number = k.input ? static_cast<uint32_t>(k.tensor.output_nr()) : k.index;
    if (producer) text << ", which is output " << number << " of " << producer->name() << ',';
    text << " is at version " << now << "; expected version " << k.version << " instead.";
    if (autograd::AnomalyMode::is_enabled())
      text << " Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in "
              "question was changed in there or anywhere later. Good luck!";
    else
      text << " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
              "torch.autograd.set_detect_anomaly(True, check_nan=False).";
    TORCH_CHECK(false, text.str());
  }
}

void LightNode::backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs, std::span<ir::Value> out) {
  auto changes = replaced(r);
  lazy::differentiate(r, *segment_, gradients, needs, out, {changes.data(), changes.size()});
}

Tensor LightNode::input_gradient(lazy::Recording& r, size_t input, ir::Value g) const {
  c10::ScalarType type = lazy::to_torch(r.dtype(g));
  for (const auto& read : segment_->reads)  // in the memory order of what it is the gradient of
    if (read.tensor == input && read.order) return r.tensor(r.permute(g, segment_->order(read)), type, segment_->order(read));
  return r.tensor(g, type);
}

variable_list LightNode::record(const variable_list& gradients, uint64_t needs) {
  variable_list out(next_edges_.size());
  c10::SmallVector<ir::Value, 4> in, results(out.size());
  lazy::Recording r;
  for (const Tensor& g : gradients) in.push_back(g.defined() ? r.value(g) : ir::Value{});
  backward(r, {in.data(), in.size()}, needs, {results.data(), results.size()});
  for (size_t i = 0; i < out.size(); ++i)
    if (results[i]) out[i] = input_gradient(r, i, results[i]);
  return out;
}

// The same, while a tape notes it: over the gradients, then this node's inputs, then its outputs, the latter two as far as
// backward reads them.
variable_list LightNode::record_differentiably(const variable_list& gradients, uint64_t needs) {
  {
    std::lock_guard lock(lazy::recorder().mutex);
    segment_->settle(lazy::recorder().trace);
  }
  const lazy::Fragment& fragment = *segment_->fragment;
  const size_t inputs = next_edges_.size(), outputs = fragment.outputs.size();
  autograd::edge_list edges;
  c10::SmallVector<const Tensor*, 8> tensors;
  uint64_t wanted = 0;
  auto add = [&](autograd::Edge edge, const Tensor* t) {
    if (edge.is_valid()) wanted |= uint64_t{1} << edges.size();
    edges.push_back(std::move(edge));
    tensors.push_back(t);
  };
  for (const Tensor& g : gradients) add(g.defined() ? edge_of(g) : autograd::Edge(), &g);
  for (const autograd::Edge& e : next_edges_) add(e, nullptr);
  for (size_t i = 0; i < outputs; ++i) add({shared_from_this(), static_cast<uint32_t>(i)}, nullptr);
  TORCH_CHECK(edges.size() <= 64, "lazuli: ", name(), " has too many operands to be differentiated twice");
  auto node = make(name_, std::move(edges));
  variable_list out(inputs);
  c10::SmallVector<const Tensor*, 4> results;
  const size_t first_result = gradients.size() + inputs;
  lazy::DerivativeTape tape({tensors.data(), gradients.size()}, wanted, fragment, static_cast<uint16_t>(gradients.size()),
                            static_cast<uint16_t>(first_result));
  out = record(gradients, needs);
  for (const Tensor& t : out) results.push_back(&t);
  lazy::Saved saved = tape.finish({results.data(), results.size()});
  if (saved.differentiable) {
    // What it keeps of this node's tensors must stay as it was when this node kept it.
    for (const Kept& k : kept_) {
      Kept own = k;
      own.input = true;
      own.index = static_cast<uint16_t>((k.input ? gradients.size() : first_result) + k.index);
      if (saved.inputs >> own.index & 1) node->kept_.push_back(std::move(own));
    }
    saved.inputs &= (uint64_t{1} << gradients.size()) - 1;
    attach(std::move(node), tape.segment(), saved, {tensors.data(), tensors.size()}, {results.data(), results.size()});
    return out;
  }
  for (Tensor& t : out)
    if (t.defined()) {
      auto error = std::make_shared<autograd::NotImplemented>(name());
      error->add_input_metadata(t);
      autograd::impl::set_gradient_edge(t, {std::move(error), 0});
    }
  return out;
}

// Gradients that torch.func.vmap batches: backward of each, and the batch of that.
variable_list LightNode::one_by_one(const variable_list& gradients) {
  int64_t level = 0, count = 0;
  for (const Tensor& g : gradients) {
    TORCH_CHECK_NOT_IMPLEMENTED(!g.defined() || is_plain(g) || at::functorch::isBatchedTensor(g), "lazuli: ", name(),
                                " cannot take a gradient of type ", g.toString(),
                                ": only plain and batched tensors of the device can flow through it");
    if (auto* b = g.defined() ? at::functorch::maybeGetBatchedImpl(g) : nullptr; b && b->level() > level) {
      level = b->level();
      count = b->value().size(b->bdim());
    }
  }
  std::vector<std::vector<Tensor>> parts(next_edges_.size());
  for (int64_t i = 0; i < count; ++i) {
    variable_list slice;
    for (const Tensor& g : gradients) {
      auto* b = g.defined() ? at::functorch::maybeGetBatchedImpl(g) : nullptr;
      slice.push_back(b && b->level() == level ? b->value().select(b->bdim(), i) : g);
    }
    variable_list out = apply(std::move(slice));
    for (size_t j = 0; j < out.size(); ++j)
      if (out[j].defined()) parts[j].push_back(out[j]);
  }
  variable_list out(parts.size());
  for (size_t j = 0; j < parts.size(); ++j)
    if (!parts[j].empty()) out[j] = at::functorch::makeBatched(at::stack(parts[j]), 0, level);
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
  if (!plain) return one_by_one(gradients);
  std::lock_guard lock(mutex_);
  check();
  uint64_t needs = 0;
  for (size_t i = 0; i < next_edges_.size(); ++i)
    if (task_should_compute_output(i)) needs |= uint64_t{1} << i;
  return c10::GradMode::is_enabled() ? record_differentiably(gradients, needs) : record(gradients, needs);
}

}  // namespace lazuli::backend
