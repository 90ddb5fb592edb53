// Who wants a node as soon as an operation is recorded: anomaly mode, which notes the Python stack, and from torch 2.14
// on `torch.autograd.graph.node_creation_hook`. Torch's own operators ask at each node that they make.
#pragma once
#include "backend/torch_internals/node_pointer.h"

namespace lazuli::backend {

bool wants_nodes_at_once();
// Calls this thread's hooks for nodes, unless they have been called for this one.
void tell_of_node(const NodePointer<>& node);

}  // namespace lazuli::backend
