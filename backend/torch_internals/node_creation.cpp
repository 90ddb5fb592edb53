#include "backend/torch_internals/node_creation.h"

#if __has_include(<torch/csrc/autograd/node_creation_hook.h>)
#include <ATen/NodeCreationHooks.h>
#include <torch/csrc/autograd/node.h>
#define LAZULI_TELLS_OF_NODES 1
#endif

namespace lazuli::backend {

#ifdef LAZULI_TELLS_OF_NODES

bool tells_of_nodes() { return !at::impl::NodeCreationHooks::empty(); }
void tell_of_node(const NodePointer<>& node) {
  if (!node->node_creation_hooks_fired()) torch::autograd::fire_node_creation_hooks(node);
}

#else

bool tells_of_nodes() { return false; }
void tell_of_node(const NodePointer<>&) {}

#endif

}  // namespace lazuli::backend
