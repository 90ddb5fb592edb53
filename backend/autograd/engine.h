// Backward of what was recorded: torch's engine hands a whole run over (through the hook that it has for compiled
// autograd), and gets it back as one node, which it runs on the caller's thread. In it regions and light nodes record
// derivatives one after the other, without tensors in between and without their own turn on autograd's thread; every
// other node runs as torch's engine would run it, with hooks, captures, checks and accumulation, in the same order.
#pragma once
#include <ATen/core/Tensor.h>

namespace lazuli::backend {

// From now on, if the settings want light nodes; until somebody else installs a hook of their own. Without it, light
// nodes run one by one on torch's engine, with the same results.
void install_engine_hook();

// Torch's engine lets one thread at a time pass to its hook: it refuses who comes while another thread is on its way
// from the look at the edges to the hook. So a backward enters alone: others wait until it has reached the hook, or
// left. Entering twice is entering once, and without a hook it is nothing. Who leaves has no roots any more
// (begin_backward).
void enter_engine();
void leave_engine();

// The node whose code runs on this thread, of those that we run, as the history of a tensor that says nothing else.
// None where torch's engine knows.
std::optional<at::Tensor> running_node();

}  // namespace lazuli::backend
