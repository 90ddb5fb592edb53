#include "backend/torch_internals/backward_task.h"

#include <torch/csrc/autograd/engine.h>
#include "backend/torch_internals/engine_warnings.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using autograd::variable_list;

BackwardHook installed = nullptr;

variable_list hand_over(const NodePointer<>& root, const autograd::GraphTask& task, bool /*accumulate_grad*/,
                        const autograd::edge_list& /*outputs*/) {
  return installed(BackwardTask(task, root));
}

}  // namespace

void BackwardTask::capture(const Filter& filter, const variable_list& gradients) const {
  for (const auto& c : *filter.captures_) {
    at::Tensor g = gradients[c.input_idx_];
    for (const auto& hook : c.DO_NOT_USE_DEPRECATED_get_capture_hooks()) g = (*hook)(g);
    task_.captured_vars_[c.output_idx_] = std::move(g);
  }
}

variable_list BackwardTask::run(NodePointer<> node) const {
  if (node != root_ && is_filtered()) task_.exec_info_[node.get()].needed_ = true;
  auto result = autograd::Engine::get_default_engine().execute_with_graph_task(
      task_.shared_from_this(), std::move(node), autograd::InputBuffer(variable_list()));
  result->wait();
  for (const c10::Warning& w : take_warnings(task_.warning_handler_)) c10::warn(w);
  return result->value().toTensorVector();
}

void set_backward_hook(BackwardHook hook) {
  installed = hook;
  autograd::Engine::set_compiled_autograd(&hand_over);
}

}  // namespace lazuli::backend
