#include "backend/autograd/step.h"

#include "backend/autograd/light_node.h"
#include "backend/autograd/nodes_on_demand.h"

namespace lazuli::backend {

std::recursive_mutex& graph_mutex() {
  static auto* m = new std::recursive_mutex;  // outlives every thread
  return *m;
}

StepRef Step::record(const NodeOf& kind, lazy::SegmentRef segment, const lazy::Saved& saved, lazy::Tensors inputs, lazy::Tensors results) {
  StepRef step(new Step(kind));
  step->position = segment->epoch << 32 | segment->begin;
  for (const at::Tensor* t : inputs) {
    if (t)
      step->inputs.emplace_back(*t);
    else
      step->inputs.emplace_back();
  }
  step->own_operation.note(std::move(segment), saved, inputs, results);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!step->outputs.emplace_back(output(saved, i, *results[i])).flows) continue;
    auto* impl = results[i]->unsafeGetTensorImpl();
    if (impl->autograd_meta())
      torch::autograd::impl::set_gradient_edge(*results[i], {node_of(*step), static_cast<uint32_t>(i)});
    else
      impl->set_autograd_meta(std::unique_ptr<StepMeta>(new StepMeta(step, static_cast<uint32_t>(i))));
  }
  return step;
}

Step::Output Step::output(const lazy::Saved& saved, size_t i, const at::Tensor& t) {
  if (!(saved.flowing >> i & 1)) return {};
  return {true, t.scalar_type(), lazy::to_dims(t.unsafeGetTensorImpl()->sizes())};
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
