// Appending to a tensor where it lies (lazy/trace/prefix.h): what torch.cat records of a cache that grows.
#pragma once
#include <ATen/core/Tensor.h>

namespace lazuli::lazy {

// Whether torch.cat({cache, more}, dim) may be that. Not where one of them may need a gradient. The next two are for
// such.
bool may_grow(const at::Tensor& cache, const at::Tensor& more, int64_t dim);
// torch.cat({cache, more}, dim) with `more` written behind what the cache has in its memory, if there is room; and with
// new memory that has some if the cache grew so in several traces before. Undefined where neither is so: then it has to
// be copied.
at::Tensor append_in_place(const at::Tensor& cache, const at::Tensor& more, int64_t dim);
// Notes that it was copied to `grown`.
void note_growth(const at::Tensor& cache, int64_t dim, const at::Tensor& grown);

}  // namespace lazuli::lazy
