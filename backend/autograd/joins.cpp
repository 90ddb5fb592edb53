// cat and stack at torch's autograd key. However many tensors they join, each gets a piece of the gradient, so their
// step has a few numbers (view_derivative.h), and no tape is kept.
#include "backend/autograd/light.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// Whether the gradients are the pieces as they lie: where formats have a say, types differ, or an empty list of numbers
// is skipped, a tape tells.
bool joins_plainly(lazy::Tensors tensors, bool stacks) {
  if (tensors.empty() || std::ranges::find(tensors, nullptr) != tensors.end()) return false;
  const Tensor& first = *tensors[0];
  if (!first.is_floating_point() || (!stacks && first.dim() == 0)) return false;
  for (const Tensor* t : tensors)
    if (t->scalar_type() != first.scalar_type() || t->dim() != first.dim() || (stacks && t->sizes() != first.sizes()) ||
        !t->is_privateuseone() || t->layout() != at::kStrided || (first.dim() > 2 && !t->is_contiguous()) ||
        (!stacks && t->dim() == 1 && t->numel() == 0))
      return false;
  return true;
}

ViewDerivative* joined(lazy::Tensors tensors, const Tensor& result, int64_t dim, bool stacks) {
  dim = c10::maybe_wrap_dim(dim, result.dim());
  ir::Dims numbers{dim, stacks};
  for (const Tensor* t : tensors) numbers.push_back(stacks ? 1 : t->size(dim));
  return new ViewDerivative{{}, ViewDerivative::Form::Join, lazy::to_dims(result.sizes()), std::move(numbers)};
}

template <class Aten, bool stacks, class Schema = typename Aten::schema>
struct LightJoin;
template <class Aten, bool stacks, class List>
struct LightJoin<Aten, stacks, Tensor(List, int64_t)> {
  static Tensor call(c10::DispatchKeySet keys, List list, int64_t dim) {
    OpTensors tensors;
    tensors.add(list);
    if (tensors.route(keys, SIZE_MAX) != Route::Light || !joins_plainly(tensors.tensors(), stacks))
      return Light<Aten>::call(keys, list, dim);
    at::AutoDispatchBelowADInplaceOrView guard;
    Tensor result = Aten::redispatch(keys & c10::after_ADInplaceOrView_keyset, list, dim);
    Step::record(Light<Aten>::kind, std::unique_ptr<ViewDerivative>(joined(tensors.tensors(), result, dim, stacks)),
                 tensors.tensors(), result);
    return result;
  }
  static void implement(torch::Library& m, const char* node) {
    Light<Aten>::kind = backend::implement<Aten, &LightJoin::call>(m, {.name = node, .traits = {}});
  }
};

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  if (!lazy::config().light_autograd) return;
  LightJoin<at::_ops::cat, false>::implement(m, "CatBackward0");
  LightJoin<at::_ops::stack, true>::implement(m, "StackBackward0");
}

}  // namespace
}  // namespace lazuli::backend
