#include "backend/autograd/light.h"

#include <ATen/SavedTensorHooks.h>
#include "backend/record/moved_operands.h"
#include "backend/record/operands.h"
#include "backend/torch_internals/autograd_kernels.h"
#include "backend/torch_internals/dispatch_keys.h"
#include "backend/torch_internals/node_creation.h"
#include "lazy/support/mutex.h"

namespace lazuli::backend {
namespace {

bool hooks_on_saved_tensors() {
  const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
  return !state.stack.empty() || state.is_tracing;
}

// Whether gradients of the tensor have the shape that its history expects. It is another after `.data =`, or a view in
// place without autograd: what torch's nodes give is then made to fit, or refused.
bool is_as_made(const at::Tensor& t, torch::autograd::AutogradMeta* meta) {
  if (const StepOf own(meta); own) return ir::equal(own.step()->outputs[own.output()].sizes, t.sizes());
  const auto& node = torch_node(*meta);
  return !node || node->input_metadata(torch_output(*meta)).shape_as_dim_vector() == t.sym_sizes();
}

}  // namespace

Route OpTensors::route(c10::DispatchKeySet keys, size_t most) {
  if (!is_alone(keys)) return Route::Torch;
  const lazy::Tensors all = tensors();
  bool ours = all.size() <= most;
  for (size_t i = 0; i < all.size(); ++i) {
    const at::Tensor* t = all[i];
    if (!t) continue;
    auto* meta = meta_of(*t);
    if (meta && has_forward_gradient(*meta)) return Route::Torch;
    const bool requires_grad = meta && (StepOf(meta) || meta->requires_grad());
    if (requires_grad) requiring_grad_ |= uint64_t{1} << (i & 63);
    const bool is_simple =
        !requires_grad || (is_as_made(*t, meta) && torch::autograd::isDifferentiableType(t->scalar_type()));
    if (t->is_privateuseone() ? t->is_inference() || !is_simple : requires_grad) ours = false;
    if (t->is_complex()) ours = false;  // none is taped, and to find that out by an exception takes longer than the op
  }
  if (!requiring_grad_ || !c10::GradMode::is_enabled()) return Route::Below;
  return ours && !hooks_on_saved_tensors() && !tells_of_nodes() ? Route::Light : Route::Torch;
}

bool finish(lazy::OpTape& tape, const NodeOf& kind, lazy::Tensors inputs, lazy::Tensors results) {
  lazy::HostTimer timer(lazy::HostAccount::Autograd);
  const lazy::Saved* saved = tape.finish(results);
  if (saved && saved->flowing) Step::record(kind, tape.segment(), *saved, inputs, results);
  return saved;
}

std::vector<NodeType>& node_types() {
  static auto* types = new std::vector<NodeType>;
  return *types;
}

void call_torch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  move_what_requires_grad(op, stack);
  static auto& mutex = *new lazy::Mutex(lazy::Rank::Leaf);
  static auto* kernels = new std::unordered_map<c10::OperatorName, std::unique_ptr<c10::SafeKernelFunction>>;
  c10::SafeKernelFunction* kernel;
  {
    std::lock_guard lock(mutex);
    auto& known = (*kernels)[op.operator_name()];
    if (!known) known = std::make_unique<c10::SafeKernelFunction>(torch_autograd_kernel(op));
    kernel = known.get();
  }
  kernel->callBoxed(op, keys, stack);
}

}  // namespace lazuli::backend
