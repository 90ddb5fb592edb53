// What recording leaves behind of an op that gradients may flow through, in place of an autograd node: the operation
// (operation.h) and where its inputs come from. Most steps live and die without a node, which costs much more to make;
// nodes are made when somebody asks for one (nodes_on_demand.h).
#pragma once
#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include "backend/autograd/operation.h"
#include "lazy/pool.h"

namespace lazuli::backend {

class LightNode;
class Step;

// An operator's nodes, by what torch says of them.
struct NodeOf {
  const char* name = nullptr;
  uint32_t differentiable = ~0u;  // masks its results
  std::shared_ptr<LightNode> (*make)(const char* name, uint64_t sequence, torch::autograd::edge_list&& edges) = nullptr;
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

// The autograd metadata of a result whose node nobody has asked for yet. Torch knows such a tensor by its hooks only
// (nodes_on_demand.h); what writes a tensor's history directly also writes its output number, and so undoes the mark there.
struct StepMeta final : torch::autograd::AutogradMeta, lazy::Pooled<StepMeta, 320> {
  using lazy::Pooled<StepMeta, 320>::operator new;
  using lazy::Pooled<StepMeta, 320>::operator delete;
  static constexpr uint32_t kMark = 1u << 31;

  StepMeta(StepRef s, uint32_t output) : step(std::move(s)) { output_nr_ = output | kMark; }
  bool requires_grad() const override { return requires_grad_ || grad_fn_ || of(this); }
  uint32_t output() const { return output_nr_ & ~kMark; }
  // Null for any other metadata.
  static const StepMeta* of(const torch::autograd::AutogradMeta* meta) {
    return meta && __atomic_load_n(&meta->output_nr_, __ATOMIC_ACQUIRE) & kMark ? static_cast<const StepMeta*>(meta) : nullptr;
  }
  static StepMeta* of(torch::autograd::AutogradMeta* meta) {
    return const_cast<StepMeta*>(of(const_cast<const torch::autograd::AutogradMeta*>(meta)));
  }
  // From now on the tensor has a node like any other. Other threads may be looking.
  void become(std::shared_ptr<torch::autograd::Node> node) {
    grad_fn_ = std::move(node);
    __atomic_store_n(&output_nr_, output(), __ATOMIC_RELEASE);
  }

  StepRef step;  // stays when there is a node, for those who are looking
};

inline torch::autograd::AutogradMeta* meta_of(const at::TensorBase& t) {
  return static_cast<torch::autograd::AutogradMeta*>(t.unsafeGetTensorImpl()->autograd_meta());
}

// Where a gradient of an input flows to.
class History {
 public:
  enum class Kind : uint8_t { None, Step, Leaf, Node };
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
  // A leaf is held as its accumulator would hold it.
  const at::Tensor& leaf() const { return leaf_; }
  const std::shared_ptr<torch::autograd::Node>& node() const { return node_; }

 private:
  void clear();
  void take(History& o);
  Kind kind_ = Kind::None;
  uint32_t number_ = 0;
  union {
    StepRef step_;
    at::Tensor leaf_;
    std::shared_ptr<torch::autograd::Node> node_;
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
  static Output output(const lazy::Saved& saved, size_t i, const at::Tensor& result);
  // Of an op over `inputs` (null: none there) that returned `results`: makes it their history.
  static StepRef record(const NodeOf& kind, lazy::SegmentRef segment, const lazy::Saved& saved, lazy::Tensors inputs, lazy::Tensors results);

  const NodeOf& kind;
  const uint64_t sequence = at::sequence_number::get_and_increment();
  // Where in all that was recorded: later than every step that it takes anything from, whichever threads recorded them.
  uint64_t position = 0;
  c10::SmallVector<Output, 1> outputs;
  // The rest changes hands when a node is made, and belongs to who holds graph_mutex().
  std::shared_ptr<LightNode> node;  // null: none yet; else all below is the node's
  c10::SmallVector<History, 3> inputs;
  Operation own_operation;
  Operation& operation();
  uint32_t place = 0;  // while a region is collected

 private:
  friend class StepRef;
  explicit Step(const NodeOf& k) : kind(k), own_operation(k.name) {}
  static void free(Step* s);
  std::atomic<uint32_t> references_{1};
  Step* next_freed_ = nullptr;
};

// Guards what steps and their nodes hand over. It may be taken by who holds the recorder's lock, not the other way round, and
// nothing that may be Python (destructors of tensors are) happens under it.
std::recursive_mutex& graph_mutex();

inline StepRef::StepRef(const StepRef& o) : p_(o.p_) {
  if (p_) p_->references_.fetch_add(1, std::memory_order_relaxed);
}
inline StepRef StepRef::share(Step* p) {
  p->references_.fetch_add(1, std::memory_order_relaxed);
  return StepRef(p);
}
inline StepRef::~StepRef() {
  if (p_ && p_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Step::free(p_);
}

inline History::History(const at::Tensor& t) {
  auto* meta = meta_of(t);
  if (!meta) return;
  if (const StepMeta* m = StepMeta::of(meta)) {
    kind_ = Kind::Step;
    number_ = m->output();
    new (&step_) StepRef(m->step);
  } else if (meta->is_view_) {
    if (!meta->requires_grad()) return;
    auto edge = torch::autograd::impl::gradient_edge(t);
    if (!edge.is_valid()) return;
    kind_ = Kind::Node;
    number_ = edge.input_nr;
    new (&node_) std::shared_ptr<torch::autograd::Node>(std::move(edge.function));
  } else if (meta->grad_fn_) {
    kind_ = Kind::Node;
    number_ = meta->output_nr_;
    new (&node_) std::shared_ptr<torch::autograd::Node>(meta->grad_fn_);
  } else if (meta->requires_grad()) {
    kind_ = Kind::Leaf;
    new (&leaf_) at::Tensor(t);
  }
}
inline void History::clear() {
  switch (std::exchange(kind_, Kind::None)) {
    case Kind::None: return;
    case Kind::Step: return step_.~StepRef();
    case Kind::Leaf: return leaf_.~Tensor();
    case Kind::Node: return node_.~shared_ptr();
  }
}
inline void History::take(History& o) {
  number_ = o.number_;
  switch (kind_ = o.kind_) {
    case Kind::None: return;
    case Kind::Step: new (&step_) StepRef(std::move(o.step_)); break;
    case Kind::Leaf: new (&leaf_) at::Tensor(std::move(o.leaf_)); break;
    case Kind::Node: new (&node_) std::shared_ptr<torch::autograd::Node>(std::move(o.node_)); break;
  }
  o.clear();
}

}  // namespace lazuli::backend
