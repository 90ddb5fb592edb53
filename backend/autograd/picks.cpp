// x[i, j] with index tensors, and what masks pick, at torch's autograd key: steps like those of other operators
// (light.h). Indices come in a list of what may be absent.
#include <ATen/ExpandUtils.h>
#include "backend/autograd/light.h"
#include "backend/record/operands.h"
#include "backend/record/positions.h"
#include "backend/torch_internals/dispatch_keys.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;
using Pick = Light<at::_ops::index_Tensor>;
using MaskedSelect = Light<at::_ops::masked_select>;

// Among the tensors. Torch keeps them, while the derivative reads what is made of them.
constexpr uint8_t kIndices = 0b11111110;
constexpr size_t kMostIndices = 7;

bool is_mask_of_ours(const Tensor& t) { return is_ours(t) && is_mask(t); }

Tensor pick(c10::DispatchKeySet keys, const Tensor& self, const Indices& indices) {
  std::vector<Tensor> own;
  own.reserve(indices.size());
  bool on_device = true;  // of another the copy would be kept, and nobody would see it written
  for (size_t i = 0; i < indices.size(); ++i)
    if (std::optional<Tensor> t = indices.get(i); t && t->defined()) {
      on_device &= t->is_privateuseone();
      own.push_back(*std::move(t));
    }
  OpTensors tensors;
  tensors.add(self);
  for (const Tensor& t : own) tensors.add(t);
  const Route route = tensors.route(without_undefined(keys, tensors.tensors()));
  const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
  if (route == Route::Below) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return at::_ops::index_Tensor::redispatch(below, self, indices);
  }
  if (route == Route::Light && on_device && own.size() <= kMostIndices) {
    try {
      at::AutoDispatchBelowADInplaceOrView guard;
      for (const Tensor& t : own)
        if (is_mask_of_ours(t)) positions_of(t);
      lazy::OpTape tape(tensors.tensors(), tensors.requiring_grad(), Pick::kind.differentiable);
      Tensor result = at::_ops::index_Tensor::redispatch(below, self, indices);
      if (finish(tape, Pick::kind, tensors.tensors(), pointers(result))) return result;
    } catch (const NotTaped&) {}
  }
  return Pick::by_torch(keys, self, indices);
}

Tensor masked_select(c10::DispatchKeySet keys, const Tensor& self, const Tensor& mask) {
  OpTensors tensors;
  tensors.add(self);
  tensors.add(mask);
  if (tensors.route(keys) == Route::Light && is_mask_of_ours(mask) && at::are_expandable(self.sizes(), mask.sizes())) {
    at::AutoDispatchBelowADInplaceOrView guard;
    positions_of(mask.expand(at::infer_size_dimvector(self.sizes(), mask.sizes())));
  }
  return MaskedSelect::call(keys, self, mask);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  if (!lazy::config().light_autograd) return;
  Pick::kind = implement<at::_ops::index_Tensor, &pick>(
      m, {.name = "IndexBackward0", .traits = {.keeps = true, .watched_inputs = kIndices}});
  MaskedSelect::kind = implement<at::_ops::masked_select, &masked_select>(
      m, {.name = "MaskedSelectBackward0", .traits = {.keeps = true, .watched_inputs = 0b11}});
}

}  // namespace
}  // namespace lazuli::backend
