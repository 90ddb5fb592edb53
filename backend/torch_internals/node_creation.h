// From torch 2.14 on: `torch.autograd.graph.node_creation_hook`, which is told of each node that this thread makes.
// Torch's own operators tell it.
#pragma once
#include "backend/torch_internals/node_pointer.h"

namespace lazuli::backend {

bool tells_of_nodes();
// Calls this thread's hooks for nodes, unless they have been called for this one.
void tell_of_node(const NodePointer<>& node);

}  // namespace lazuli::backend
