// Operators that look into a tensor while they compute shapes: the places of tensor_split, the sizes of a reshape.
// Torch's composites read such a tensor's memory, and take it on the CPU only; a script that ran on the CPU has it
// beside its data, and so do we.
#include <ATen/ops/_reshape_from_tensor_native.h>
#include <ATen/ops/tensor_split_native.h>
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

Tensor read_on_host(const Tensor& operand) { return operand.is_privateuseone() ? operand.cpu() : operand; }

// The results are views, whose derivatives torch knows: what is read here are the places and the sizes.
std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& places, int64_t dim) {
  return at::native::tensor_split(self, self.is_privateuseone() ? read_on_host(places) : places, dim);
}

Tensor reshape_from_tensor(const Tensor& self, const Tensor& sizes) {
  return at::native::_reshape_from_tensor(self, read_on_host(sizes));
}

}  // namespace

void register_host_operands(torch::Library& m) {
  m.impl("tensor_split.tensor_indices_or_sections", tensor_split);
  m.impl("_reshape_from_tensor", reshape_from_tensor);
}

}  // namespace lazuli::backend
