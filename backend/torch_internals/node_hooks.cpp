#include "backend/torch_internals/node_hooks.h"

namespace lazuli::backend {

bool is_hooked(torch::autograd::Node& n) {
  return !n.pre_hooks().empty() || !n.tensor_pre_hooks().empty() || !n.post_hooks().empty() ||
         !n.retains_grad_hooks().empty() || n.tensor_post_acc_grad_hooks();
}

}  // namespace lazuli::backend
