// Torch's two kinds of vmap, alike: torch.func's, and the one by which torch.autograd batches gradients
// (`is_grads_batched`, `vectorize=True`). A node sees the wrapped tensors of both, and neither has a public C++ API.
// Their headers cannot be included together.
#pragma once
#include <ATen/core/Tensor.h>

namespace lazuli::backend {

struct Vmap {
  // The innermost level that batches the tensor; 0: none. The others are for who has one.
  int64_t (*level)(const at::Tensor& t);
  int64_t (*size)(const at::Tensor& t);
  // One of the batch, as the levels outside of that know it.
  at::Tensor (*part)(const at::Tensor& t, int64_t index);
  // What is batched along the first dimension.
  at::Tensor (*batch)(const at::Tensor& t, int64_t level);
};
extern const Vmap vmap_of_func, vmap_of_autograd;

}  // namespace lazuli::backend
