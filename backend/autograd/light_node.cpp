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

// Memory for a shared_ptr's control block.
template <class T>
struct ControlBlockAllocator {
  using value_type = T;
  ControlBlockAllocator() = default;
  template <class U>
  ControlBlockAllocator(const ControlBlockAllocator<U>&) {}
  T* allocate(size_t n) {
    static_assert(sizeof(T) <= 64);
    return n == 1 ? static_cast<T*>(lazy::Pool<64>::take()) : static_cast<T*>(::operator new(n * sizeof(T)));
  }
  void deallocate(T* p, size_t n) { n == 1 ? lazy::Pool<64>::give(p) : ::operator delete(p); }
  template <class U>
  bool operator==(const ControlBlockAllocator<U>&) const { return true; }
};

class PooledMeta final : public autograd::AutogradMeta, public lazy::Pooled<PooledMeta, 320> {
 public:
  using lazy::Pooled<PooledMeta, 320>::operator new;
  using lazy::Pooled<PooledMeta, 320>::operator delete;
};

void set_history(const Tensor& t, std::shared_ptr<LightNode> node, uint32_t output) {
  auto* impl = t.unsafeGetTensorImpl();
  if (impl->autograd_meta()) return autograd::impl::set_gradient_edge(t, {std::move(node), output});
  std::unique_ptr<PooledMeta> meta(new PooledMeta);
  meta->grad_fn_ = std::move(node);
  meta->output_nr_ = output;
  impl->set_autograd_meta(std::move(meta));
}

// Plain tensors of this device can be recorded; a wrapper's content is its own business.
bool is_plain(const Tensor& t) {
  using K = c10::DispatchKey;
  static const uint64_t known = (c10::DispatchKeySet(K::PrivateUse1) | c10::DispatchKeySet(K::AutogradPrivateUse1) |
                                 c10::DispatchKeySet(K::ADInplaceOrView) | c10::DispatchKeySet(K::AutocastPrivateUse1))
                                    .raw_repr();
  return !(t.unsafeGetTensorImpl()->key_set().raw_repr() & ~known);
}

}  // namespace

autograd::Edge edge_of(const Tensor& t) {
  auto* meta = static_cast<autograd::AutogradMeta*>(t.unsafeGetTensorImpl()->autograd_meta());
  if (!meta || !meta->requires_grad()) return {};
  if (!meta->is_view_ && meta->grad_fn_) return {meta->grad_fn_, meta->output_nr_};
  return autograd::impl::gradient_edge(t);
}

std::shared_ptr<LightNode> LightNode::make(const char* name, autograd::edge_list&& edges) {
  return {new LightNode(name, std::move(edges)), autograd::deleteNode, ControlBlockAllocator<char>()};
}

void LightNode::save(Saved kind, uint16_t index, const Tensor& t) {
  versions_.push_back({t.unsafeGetTensorImpl()->version_counter(), t.unsafeGetTensorImpl()->version_counter().current_version(), kind,
                       index, t.scalar_type(), at::DimVector(t.sizes())});
}

void LightNode::attach(const std::shared_ptr<LightNode>& node, std::span<const Tensor* const> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor* t = outputs[i];
    bool flows = t && t->defined() && node->fragment_.outputs[i].slot != lazy::Fragment::kNone;
    if (!flows) {
      node->add_input_metadata(undefined_input());
      continue;
    }
    uint32_t number = node->add_input_metadata(*t);
    set_history(*t, node, number);
  }
}

void LightNode::release_variables() {
  std::lock_guard lock(mutex_);
  released_ |= fragment_.keeps_values();
  fragment_.release();
  versions_.clear();
}

void LightNode::check() const {
  TORCH_CHECK(!released_, autograd::ERR_BACKWARD_TWICE);
  for (const Version& v : versions_) {
    uint32_t now = v.counter.current_version();
    if (now == v.expected) continue;
    std::ostringstream text;
    text << "one of the variables needed for gradient computation has been modified by an inplace operation: ["
         << at::getDeprecatedTypeProperties(c10::Backend::PrivateUse1, v.type).toString() << ' ' << at::IntArrayRef(v.sizes) << ']';
    const autograd::Node* producer = this;
    uint32_t number = v.index;
    if (v.kind == Saved::Input) {
      producer = v.index < next_edges_.size() ? next_edges_[v.index].function.get() : nullptr;
      number = producer ? next_edges_[v.index].input_nr : 0;
      if (producer && producer->num_outputs() == 0) producer = nullptr;  // a leaf's accumulator
    }
    if (producer) text << ", which is output " << number << " of " << producer->name() << ',';
    text << " is at version " << now << "; expected version " << v.expected << " instead.";
    if (autograd::AnomalyMode::is_enabled())
      text << " Hint: the backtrace further above shows the operation that failed to compute its gradient. The variable in "
              "question was changed in there or anywhere later. Good luck!";
    else
      text << " Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
              "torch.autograd.set_detect_anomaly(True).";
    TORCH_CHECK(false, text.str());
  }
}

void LightNode::backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs, std::span<ir::Value> out) {
  lazy::differentiate(r, fragment_, gradients, needs, out);
}

Tensor LightNode::input_gradient(lazy::Recording& r, size_t input, ir::Value g) const {
  c10::ScalarType type = lazy::to_torch(r.dtype(g));
  for (const auto& s : fragment_.slots)  // in the memory order of what it is the gradient of
    if (s.from == lazy::Fragment::Slot::From::Input && s.index == input && !s.order.empty())
      return r.tensor(r.permute(g, s.order), type, s.order);
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
  const size_t inputs = next_edges_.size(), outputs = fragment_.outputs.size();
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
  bool differentiable;
  {
    lazy::Tape tape(node->fragment_, {tensors.data(), tensors.size()}, wanted);
    tape.continues(fragment_, static_cast<uint16_t>(gradients.size()), static_cast<uint16_t>(gradients.size() + inputs));
    out = record(gradients, needs);
    for (const Tensor& t : out) results.push_back(&t);
    differentiable = tape.finish({results.data(), results.size()}, [&](Saved kind, uint16_t index) {
      if (kind == Saved::Output) return node->save(kind, index, out[index]);
      if (index < gradients.size()) return node->save(kind, index, gradients[index]);
      index = static_cast<uint16_t>(index - gradients.size());
      const Saved whose = index < inputs ? Saved::Input : Saved::Output;
      if (whose == Saved::Output) index = static_cast<uint16_t>(index - inputs);
      for (Version v : versions_)
        if (v.kind == whose && v.index == index) {
          v.kind = Saved::Input;
          v.index = static_cast<uint16_t>(gradients.size() + (whose == Saved::Output ? inputs : 0) + index);
          node->versions_.push_back(std::move(v));
        }
    });
  }
  if (differentiable) {
    attach(node, {results.data(), results.size()});
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
  for (const Tensor& g : gradients) {
    any |= g.defined();
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
