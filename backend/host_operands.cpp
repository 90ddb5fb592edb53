// tensor_split at places that a tensor holds. Torch takes such a tensor on the CPU only; a script that ran on the CPU has it
// beside its data, and so do we.
#include <ATen/ops/tensor_split_native.h>
#include <torch/library.h>

namespace lazuli::backend {
namespace {

using at::Tensor;

// The parts are views, whose derivatives torch knows: what is read here are the places.
std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& places, int64_t dim) {
  const bool ours = self.is_privateuseone() && places.is_privateuseone();
  return at::native::tensor_split(self, ours ? places.cpu() : places, dim);
}

// With the composite's own key absent, both keys need it: tensors in inference mode have no autograd key.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("tensor_split.tensor_indices_or_sections", tensor_split); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("tensor_split.tensor_indices_or_sections", tensor_split); }

}  // namespace
}  // namespace lazuli::backend
