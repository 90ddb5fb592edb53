// Autograd nodes that hold what their op recorded (lazy/segment.h) in place of saved tensors. To torch's engine they are
// nodes like any other: hooks, captures, anomaly mode and foreign nodes beside them work as always.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include "lazy/pool.h"
#include "lazy/tape.h"

namespace lazuli::backend {

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

class LightNode : public torch::autograd::Node, public lazy::Pooled<LightNode, 1024> {
 public:
  using lazy::Pooled<LightNode, 1024>::operator new;
  using lazy::Pooled<LightNode, 1024>::operator delete;
  using Tensors = lazy::Tensors;

  // `name` lives as long as the program: torch's name for the node.
  LightNode(const char* name, torch::autograd::edge_list&& edges) : Node(std::move(edges)), name_(name) {}
  template <class T = LightNode>
  static std::shared_ptr<LightNode> make(const char* name, torch::autograd::edge_list&& edges) {
    return {new T(name, std::move(edges)), torch::autograd::deleteNode, ControlBlockAllocator<char>()};
  }

  std::string name() const override { return name_; }
  void release_variables() override;

  // Gradients of the inputs that `needs` masks, from those of the outputs, as values of the trace.
  void backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs, std::span<ir::Value> out);
  // A tensor for the gradient of an input.
  at::Tensor input_gradient(lazy::Recording& r, size_t input, ir::Value g) const;
  // Throws torch's errors for a second backward without its graph, and for a saved value that was written since.
  void check() const;

  // Makes a new node the history of what an op over `inputs` returned; undefined results, and those through which no
  // gradient flows, have none.
  static void attach(std::shared_ptr<LightNode> node, lazy::SegmentRef segment, const lazy::Saved& saved, Tensors inputs,
                     Tensors results);

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list record(const torch::autograd::variable_list& gradients, uint64_t needs);
  torch::autograd::variable_list record_differentiably(const torch::autograd::variable_list& gradients, uint64_t needs);
  torch::autograd::variable_list one_by_one(const torch::autograd::variable_list& gradients);

  // A tensor whose value backward reads. As in torch's saved variables, an operand is kept itself, so that a new `.data` of
  // it counts, and a result without its history.
  struct Kept {
    at::Tensor tensor;
    const lazy::Cell* cell;  // what its storage held
    uint32_t version;
    bool input;  // of the op; else its result
    uint16_t index;
  };
  void keep(bool input, size_t index, at::Tensor t);
  // Values that were replaced behind the version counter's back.
  c10::SmallVector<lazy::Replaced, 2> replaced(lazy::Recording& r) const;

  const char* name_;
  bool keeps_ = false, released_ = false;
  lazy::SegmentRef segment_;
  c10::SmallVector<Kept, 2> kept_;
};

// Plain tensors of this device can be recorded; a wrapper's content is its own business.
bool is_plain(const at::Tensor& t);

// The edge to which a tensor's gradient flows; invalid when it needs none.
torch::autograd::Edge edge_of(const at::Tensor& t);

}  // namespace lazuli::backend
