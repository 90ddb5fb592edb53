// Autograd nodes that hold what their op recorded (lazy/tape.h) in place of saved tensors. To torch's engine they are
// nodes like any other: hooks, captures, anomaly mode and foreign nodes beside them work as always.
#pragma once
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include "lazy/pool.h"
#include "lazy/tape.h"

namespace lazuli::backend {

class LightNode final : public torch::autograd::Node, public lazy::Pooled<LightNode, 1024> {
 public:
  using lazy::Pooled<LightNode, 1024>::operator new;
  using lazy::Pooled<LightNode, 1024>::operator delete;
  using Saved = lazy::Tape::Saved;

  // `name` lives as long as the program: torch's name for the node.
  LightNode(const char* name, torch::autograd::edge_list&& edges) : Node(std::move(edges)), name_(name) {}
  static std::shared_ptr<LightNode> make(const char* name, torch::autograd::edge_list&& edges);

  std::string name() const override { return name_; }
  void release_variables() override;

  // Gradients of the inputs that `needs` masks, from those of the outputs, as values of the trace.
  void backward(lazy::Recording& r, std::span<const ir::Value> gradients, uint64_t needs, std::span<ir::Value> out);
  // Throws torch's errors for a second backward without its graph, and for a saved value that was written since.
  void check() const;

  // For who builds the node: its fragment, and the tensors whose values that keeps.
  lazy::Fragment& fragment() { return fragment_; }
  void save(Saved kind, uint16_t index, const at::Tensor& t);
  // Makes the node the history of its outputs; undefined ones, and those through which no gradient flows, have none.
  static void attach(const std::shared_ptr<LightNode>& node, std::span<const at::Tensor* const> outputs);

 private:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  torch::autograd::variable_list record(const torch::autograd::variable_list& gradients, uint64_t needs);
  torch::autograd::variable_list record_differentiably(const torch::autograd::variable_list& gradients, uint64_t needs);
  torch::autograd::variable_list one_by_one(const torch::autograd::variable_list& gradients);
  at::Tensor input_gradient(lazy::Recording& r, size_t input, ir::Value g) const;

  // A saved value's tensor must not be written before backward reads it.
  struct Version {
    c10::VariableVersion counter;
    uint32_t expected;
    Saved kind;
    uint16_t index;
    c10::ScalarType type;
    at::DimVector sizes;
  };
  const char* name_;
  bool released_ = false;
  lazy::Fragment fragment_;
  c10::SmallVector<Version, 2> versions_;
};

// The edge to which a tensor's gradient flows; invalid when it needs none.
torch::autograd::Edge edge_of(const at::Tensor& t);

}  // namespace lazuli::backend
