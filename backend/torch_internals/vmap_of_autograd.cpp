#include <ATen/LegacyBatchedTensorImpl.h>
#include "backend/torch_internals/vmap.h"

namespace lazuli::backend {
namespace {

at::BatchDim last(const at::Tensor& t) { return at::maybeGetBatchedImpl(t)->bdims().back(); }

at::Tensor part(const at::Tensor& t, int64_t index) {
  const auto* batched = at::maybeGetBatchedImpl(t);
  at::BatchDims others;
  for (const at::BatchDim& d : batched->bdims().slice(0, batched->bdims().size() - 1))
    others.emplace_back(d.level(), d.dim() - (d.dim() > last(t).dim()));
  at::Tensor one = batched->value().select(last(t).dim(), index);
  return others.empty() ? one : at::makeBatched(one, others);
}

}  // namespace

const Vmap vmap_of_autograd = {
    .level = [](const at::Tensor& t) { return at::isBatchedTensor(t) ? last(t).level() : 0; },
    .size = [](const at::Tensor& t) { return at::maybeGetBatchedImpl(t)->value().size(last(t).dim()); },
    .part = part,
    .batch = [](const at::Tensor& t, int64_t level) { return at::addBatchDim(t, level, 0); },
};

}  // namespace lazuli::backend
