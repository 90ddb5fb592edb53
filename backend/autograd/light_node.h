// The autograd node of an operation (operation.h). To torch's engine it is a node like any other: hooks, captures,
// anomaly mode and foreign nodes beside it work as always.
#pragma once
#include "backend/autograd/step.h"
#include "backend/torch_internals/dispatch_keys.h"

namespace lazuli::backend {

// Memory for what a pointer keeps beside a node, if it does.
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
  bool operator==(const ControlBlockAllocator<U>&) const {
    return true;
  }
};

class LightNode : public torch::autograd::Node, public lazy::Pooled<LightNode, 576> {
 public:
  using lazy::Pooled<LightNode, 576>::operator new;
  using lazy::Pooled<LightNode, 576>::operator delete;

  LightNode(const char* name, uint64_t sequence, torch::autograd::edge_list&& edges)
      : Node(sequence, std::move(edges)), operation_(name) {}
  template <class T = LightNode>
  static NodePointer<LightNode> make(const char* name, uint64_t sequence, torch::autograd::edge_list&& edges) {
    return own_node<LightNode>(new T(name, sequence, std::move(edges)), ControlBlockAllocator<char>());
  }

  std::string name() const override { return operation_.name(); }
  void release_variables() override;
  void compiled_args(torch::autograd::CompiledNodeArgs& args) const override;
  torch::autograd::variable_list apply_with_saved(const torch::autograd::variable_list& gradients,
                                                  torch::autograd::SwapSavedVariables& saved) override;
  Operation& operation() { return operation_; }

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list record(const torch::autograd::variable_list& gradients, uint64_t needs);
  // `made`: the node of what was recorded.
  torch::autograd::variable_list record_differentiably(const torch::autograd::variable_list& gradients, uint64_t needs,
                                                       NodePointer<>& made);
  torch::autograd::variable_list one_by_one(const torch::autograd::variable_list& gradients);

  // What compiled autograd takes from here: a program (lazy/record/derivative_program.h), and what it reads.
  struct Lifted {
    int64_t program;
    uint64_t needs;
    std::vector<at::Tensor> values;
  };
  Operation operation_;
  mutable std::unique_ptr<Lifted> lifted_;  // since compiled autograd has asked
};

inline bool is_plain(const at::Tensor& t) { return is_plain(*t.unsafeGetTensorImpl()); }

// Tells torch what gradient to expect for a result.
void add_output(torch::autograd::Node& node, const Step::Output& out);

}  // namespace lazuli::backend
