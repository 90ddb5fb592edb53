#include <ATen/functorch/BatchedTensorImpl.h>
#include "backend/torch_internals/vmap.h"

namespace lazuli::backend {

using at::functorch::maybeGetBatchedImpl;

const Vmap vmap_of_func = {
    .level = [](const at::Tensor& t) { return maybeGetBatchedImpl(t) ? maybeGetBatchedImpl(t)->level() : 0; },
    .size = [](const at::Tensor& t) { return maybeGetBatchedImpl(t)->value().size(maybeGetBatchedImpl(t)->bdim()); },
    .part = [](const at::Tensor& t,
               int64_t i) { return maybeGetBatchedImpl(t)->value().select(maybeGetBatchedImpl(t)->bdim(), i); },
    .batch = [](const at::Tensor& t, int64_t level) { return at::functorch::makeBatched(t, 0, level); },
};

}  // namespace lazuli::backend
