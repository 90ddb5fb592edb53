#include "backend/autograd/step.h"

#include <torch/csrc/autograd/anomaly_mode.h>
#include "backend/autograd/light_node.h"
#include "backend/autograd/nodes_on_demand.h"

namespace lazuli::backend {

lazy::Mutex& graph_mutex() {
  static auto* m = new lazy::Mutex(lazy::Rank::Graph);  // outlives every thread
  return *m;
}

void StepViewMeta::prepare_to_be_written(const at::TensorBase& self) const { materialize(self); }

void Step::record(const NodeOf& kind, lazy::SegmentRef segment, const lazy::Saved& saved, lazy::Tensors inputs,
                  lazy::Tensors results) {
  StepRef step(new Step(kind));
  for (const at::Tensor* t : inputs) {
    if (t)
      step->inputs.emplace_back(*t);
    else
      step->inputs.emplace_back();
  }
  step->own_operation.note(std::move(segment), saved, inputs, results, kind.traits);
  for (size_t i = 0; i < results.size(); ++i)
    if (Output& out = step->outputs.emplace_back(); saved.flowing >> i & 1) describe(out, *results[i]);
  // The node notes where in the program it was made.
  if (torch::autograd::AnomalyMode::is_enabled()) node_of(*step);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!(saved.flowing >> i & 1)) continue;
    auto* impl = results[i]->unsafeGetTensorImpl();
    const auto number = static_cast<uint32_t>(i);
    if (impl->autograd_meta())
      torch::autograd::impl::set_gradient_edge(*results[i], {node_of(*step), number});
    else
      impl->set_autograd_meta(
          std::unique_ptr<StepMeta>(new StepMeta(saved.flowing >> i == 1 ? std::move(step) : step, number)));
  }
}

void Step::record(const NodeOf& kind, std::unique_ptr<ViewDerivative> derivative, const at::Tensor& self,
                  at::ArrayRef<at::Tensor> results, std::optional<torch::autograd::CreationMeta> view) {
  lazy::HostTimer timer(lazy::HostAccount::Autograd);
  StepRef step(new Step(kind, std::move(derivative)));
  step->inputs.emplace_back(self);
  for (const at::Tensor& t : results) describe(step->outputs.emplace_back(), t);
  // The node notes where in the program it was made.
  if (torch::autograd::AnomalyMode::is_enabled()) node_of(*step);
  auto* parent = torch::autograd::impl::get_view_autograd_meta(self);
  if (view && parent) view = torch::autograd::propagate_creation_meta(parent->get_creation_meta(), *view);
  const at::Tensor& base = parent ? parent->get_backward_view().base_ : self;
  for (uint32_t i = 0; i < results.size(); ++i) {
    auto* impl = results[i].unsafeGetTensorImpl();
    if (view)
      impl->set_autograd_meta(std::unique_ptr<StepViewMeta>(new StepViewMeta(impl, base, *view, step, i)));
    else
      impl->set_autograd_meta(std::unique_ptr<StepMeta>(new StepMeta(step, i)));
  }
}

void Step::record(const NodeOf& kind, std::unique_ptr<ViewDerivative> derivative, lazy::Tensors inputs,
                  const at::Tensor& result) {
  lazy::HostTimer timer(lazy::HostAccount::Autograd);
  StepRef step(new Step(kind, std::move(derivative)));
  step->inputs.reserve(inputs.size());
  for (const at::Tensor* t : inputs) step->inputs.emplace_back(*t);
  describe(step->outputs.emplace_back(), result);
  if (torch::autograd::AnomalyMode::is_enabled()) node_of(*step);
  result.unsafeGetTensorImpl()->set_autograd_meta(std::unique_ptr<StepMeta>(new StepMeta(std::move(step), 0)));
}

Operation& Step::operation() { return node ? node->operation() : own_operation; }

// A step's end ends those that only it held, and so on: one after the other, however long the chain is.
void Step::free(Step* s) {
  struct Freeing {
    Step* next;
    bool busy;
  };
  static thread_local Freeing mine [[gnu::tls_model("initial-exec")]] = {nullptr, false};
  if (mine.busy) {
    s->next_freed_ = std::exchange(mine.next, s);
    return;
  }
  mine.busy = true;
  while (s) {
    delete s;
    s = mine.next;
    if (s) mine.next = s->next_freed_;
  }
  mine.busy = false;
}

}  // namespace lazuli::backend
