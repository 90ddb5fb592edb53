// What recording leaves behind of an op that gradients may flow through, in place of an autograd node: the operation
// (operation.h) and where its inputs come from. Most steps live and die without a node, which costs much more to make;
// nodes are made when somebody asks for one (nodes_on_demand.h).
#pragma once
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include "backend/autograd/operation.h"
#include "backend/torch_internals/own_history.h"
#include "lazy/support/block_pool.h"
#include "lazy/support/mutex.h"
#include "lazy/support/reference_count.h"

namespace lazuli::backend {

class LightNode;
class Step;

// An operator's nodes, by what torch says of them.
struct NodeOf {
  const char* name = nullptr;
  uint32_t differentiable = ~0u;  // masks its results
  uint64_t refused = 0;           // masks its tensors: those that torch wants not to require a gradient
  NodeTraits traits{.keeps = true};
  NodePointer<LightNode> (*make)(const char* name, uint64_t sequence, torch::autograd::edge_list&& edges) = nullptr;
};

class StepRef {
 public:
  StepRef() = default;
  explicit StepRef(Step* owned) : p_(owned) {}
  static StepRef share(Step* p);
  StepRef(const StepRef& o);
  StepRef(StepRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  StepRef& operator=(StepRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~StepRef();
  Step* get() const { return p_; }
  Step* operator->() const { return p_; }
  Step& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  Step* p_ = nullptr;
};

// The autograd metadata of a result whose node nobody has asked for yet carries its step, and a mark by which it is
// known (torch_internals/own_history.h).
struct WithStep {
  StepRef step;  // stays when there is a node, for other threads that are looking
};
struct StepMeta final : OwnHistory, WithStep, lazy::Pooled<StepMeta, 320> {
  using lazy::Pooled<StepMeta, 320>::operator new;
  using lazy::Pooled<StepMeta, 320>::operator delete;
  StepMeta(StepRef s, uint32_t output) : OwnHistory(output), WithStep{std::move(s)} {}
};
struct StepViewMeta final : OwnViewHistory, WithStep, lazy::Pooled<StepViewMeta, 448> {
  using lazy::Pooled<StepViewMeta, 448>::operator new;
  using lazy::Pooled<StepViewMeta, 448>::operator delete;
  StepViewMeta(c10::TensorImpl* view, const at::Tensor& base, torch::autograd::CreationMeta creation, StepRef s,
               uint32_t output)
      : OwnViewHistory(view, base, creation, output), WithStep{std::move(s)} {}
  void prepare_to_be_written(const at::TensorBase& self) const override;
};

// The step of a tensor's history, as far as it is one.
class StepOf {
 public:
  StepOf(torch::autograd::AutogradMeta* meta) {
    if (!meta) return;
    const std::optional<uint32_t> output = own_output(*meta);
    if (!output) return;
    meta_ = meta;
    output_ = *output;
  }
  StepOf(const c10::TensorImpl& t) : StepOf(meta_of(t)) {}
  explicit operator bool() const { return meta_ != nullptr; }
  StepRef& step() const {
    return is_view(*meta_) ? static_cast<StepViewMeta*>(meta_)->step : static_cast<StepMeta*>(meta_)->step;
  }
  uint32_t output() const { return output_; }
  // Writing to other windows on a view's memory gives it another history, which torch finds out when asked.
  bool is_current(const c10::TensorImpl& t) const {
    return !is_view(*meta_) ||
           static_cast<StepViewMeta*>(meta_)->get_attr_version() == t.version_counter().current_version();
  }
  // From now on the tensor has a node like any other. Other threads may be looking.
  void become(NodePointer<> node) const { give_history(*meta_, std::move(node), output_); }
  // Of a tensor that becomes a leaf.
  void forget() const {
    end_history(*meta_);
    step() = {};
  }

 private:
  torch::autograd::AutogradMeta* meta_ = nullptr;
  uint32_t output_ = 0;
};

// Where a gradient of an input flows to.
class History {
 public:
  enum class Kind : uint8_t { None, Step, Node };
  History() {}
  explicit History(const at::Tensor& t);
  History(History&& o) noexcept { take(o); }
  History& operator=(History&& o) noexcept {
    clear();
    take(o);
    return *this;
  }
  ~History() { clear(); }

  Kind kind() const { return kind_; }
  uint32_t number() const { return number_; }  // of the step's or node's result
  Step& step() const { return *step_; }
  // Of a leaf the accumulator that it has now: hooks on it are kept, though the leaf's data may be replaced later.
  const NodePointer<>& node() const { return node_; }

 private:
  void clear();
  void take(History& o);
  Kind kind_ = Kind::None;
  uint32_t number_ = 0;
  union {
    StepRef step_;
    NodePointer<> node_;
  };
};

class Step final : public lazy::Pooled<Step, 384> {
 public:
  // What a node says of the gradient of a result.
  struct Output {
    bool flows = false;
    c10::ScalarType type = c10::ScalarType::Undefined;
    ir::Dims sizes;
  };
  static void describe(Output& out, const at::Tensor& result) {
    auto* impl = result.unsafeGetTensorImpl();
    out.flows = true;
    out.type = impl->dtype().toScalarType();
    const at::IntArrayRef sizes = impl->sizes();
    out.sizes.assign(sizes.data(), sizes.size());
  }
  // Of a view of `self`, or of what shows its memory without being a view to torch.
  static void record(const NodeOf& kind, std::unique_ptr<ViewDerivative> derivative, const at::Tensor& self,
                     at::ArrayRef<at::Tensor> results, std::optional<torch::autograd::CreationMeta> view);
  // Of `inputs` joined to one.
  static void record(const NodeOf& kind, std::unique_ptr<ViewDerivative> derivative, lazy::Tensors inputs,
                     const at::Tensor& result);
  // Of an op over `inputs` (null: none there) that returned `results`: makes it their history.
  static void record(const NodeOf& kind, lazy::SegmentRef segment, const lazy::Saved& saved, lazy::Tensors inputs,
                     lazy::Tensors results);

  const NodeOf& kind;
  const uint64_t sequence = at::sequence_number::get_and_increment();
  c10::SmallVector<Output, 1> outputs;
  // The rest changes hands when a node is made, and belongs to who holds graph_mutex().
  NodePointer<LightNode> node;  // null: none yet; else all below is the node's
  c10::SmallVector<History, 3> inputs;
  Operation own_operation;
  Operation& operation();
  uint32_t place = 0;  // while a region is collected

 private:
  friend class StepRef;
  explicit Step(const NodeOf& k) : kind(k), own_operation(k.name) {}
  Step(const NodeOf& k, std::unique_ptr<ViewDerivative> view) : kind(k), own_operation(k.name, std::move(view)) {}
  static void free(Step* s);
  std::atomic<uint32_t> references_{1};
  Step* next_freed_ = nullptr;
};

// Guards what steps and their nodes hand over. It may be taken by who holds the recorder's lock, not the other way
// round, and nothing that may be Python (destructors of tensors are) happens under it.
lazy::Mutex& graph_mutex();

inline StepRef::StepRef(const StepRef& o) : p_(o.p_) {
  if (p_) p_->references_.fetch_add(1, std::memory_order_relaxed);
}
inline StepRef StepRef::share(Step* p) {
  p->references_.fetch_add(1, std::memory_order_relaxed);
  return StepRef(p);
}
inline StepRef::~StepRef() {
  if (p_ && lazy::give_up_reference(p_->references_)) Step::free(p_);
}

inline History::History(const at::Tensor& t) {
  auto* meta = meta_of(t);
  if (!meta) return;
  if (StepOf own(meta); own && own.is_current(*t.unsafeGetTensorImpl())) {
    kind_ = Kind::Step;
    number_ = own.output();
    new (&step_) StepRef(own.step());
  } else if (is_view(*meta)) {
    if (!meta->requires_grad()) return;
    auto edge = torch::autograd::impl::gradient_edge(t);
    if (!edge.is_valid()) return;
    kind_ = Kind::Node;
    number_ = edge.input_nr;
    new (&node_) NodePointer<>(std::move(edge.function));
  } else if (const auto& node = torch_node(*meta)) {
    kind_ = Kind::Node;
    number_ = torch_output(*meta);
    new (&node_) NodePointer<>(node);
  } else if (meta->requires_grad()) {
    kind_ = Kind::Node;
    new (&node_) NodePointer<>(torch::autograd::impl::grad_accumulator(t));
  }
}
inline void History::clear() {
  switch (std::exchange(kind_, Kind::None)) {
    case Kind::None:
      return;
    case Kind::Step:
      return step_.~StepRef();
    case Kind::Node:
      return std::destroy_at(&node_);
  }
}
inline void History::take(History& o) {
  number_ = o.number_;
  switch (kind_ = o.kind_) {
    case Kind::None:
      return;
    case Kind::Step:
      new (&step_) StepRef(std::move(o.step_));
      break;
    case Kind::Node:
      new (&node_) NodePointer<>(std::move(o.node_));
      break;
  }
  o.clear();
}

}  // namespace lazuli::backend
