// Autograd nodes for steps (step.h), made when somebody asks for them: through `grad_fn`, or because torch's own
// autograd takes their results further. Torch's hooks for tensors are replaced by ones that know of steps
// (torch_internals/tensor_hooks.h), so that everything which asks a tensor for its history finds a node as always.
#pragma once
#include "backend/autograd/step.h"

namespace lazuli::backend {

// The step's node, and with it those of all steps that it takes anything from, since a node names the nodes before it.
// So a step without a node never comes before one that has it.
NodePointer<LightNode> node_of(Step& step);
// The edge along a history, once what it comes from has a node.
torch::autograd::Edge edge_of(const History& h);
// Gives a tensor whose node nobody has asked for its node. Does nothing to others.
void materialize(const at::TensorBase& t);
// Ends a tensor's history, if it is a step.
void forget_step(const at::TensorBase& t);

// Answers for the hooks in place of a tensor's own node: while roots of a backward are being collected (region.h).
struct RootNodes {
  // Null: the tensor's own node counts.
  const NodePointer<>* (*node)(const c10::TensorImpl*);
  // Its input for that root, which has then been collected; -1 as above.
  int64_t (*number)(const c10::TensorImpl*);
};
void install_hooks(const RootNodes& roots);

}  // namespace lazuli::backend
