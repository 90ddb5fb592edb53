// x[i, j] with index tensors at torch's autograd key: a step like those of other operators (light.h). Its indices come
// in a list of what may be absent.
#include "backend/autograd/light.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;
using Pick = Light<at::_ops::index_Tensor>;

// Among the tensors. Torch keeps them, while the derivative reads what is made of them.
constexpr uint8_t kIndices = 0b11111110;
constexpr size_t kMostIndices = 7;

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
  const Route route = tensors.route(keys);
  const c10::DispatchKeySet below = keys & c10::after_ADInplaceOrView_keyset;
  if (route == Route::Below) {
    at::AutoDispatchBelowADInplaceOrView guard;
    return at::_ops::index_Tensor::redispatch(below, self, indices);
  }
  if (route == Route::Light && on_device && own.size() <= kMostIndices) {
    try {
      at::AutoDispatchBelowADInplaceOrView guard;
      lazy::OpTape tape(tensors.tensors(), tensors.requiring_grad(), Pick::kind.differentiable);
      Tensor result = at::_ops::index_Tensor::redispatch(below, self, indices);
      if (finish(tape, Pick::kind, tensors.tensors(), pointers(result))) return result;
    } catch (const NotTaped&) {}
  }
  return Pick::by_torch(keys, self, indices);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  if (!lazy::config().light_autograd) return;
  Pick::kind = implement<at::_ops::index_Tensor, &pick>(
      m, {.name = "IndexBackward0", .traits = {.keeps = true, .watched_inputs = kIndices}});
}

}  // namespace
}  // namespace lazuli::backend
