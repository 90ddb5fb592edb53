// Pixel shuffling, which torch writes for the CPU with a memory format of its own.
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include "backend/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// The result is never a view, though a factor of one moves nothing.
Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  Tensor y = at::native::math_pixel_shuffle(x, factor);
  return factor == 1 ? x.clone(x.suggest_memory_format()) : y.contiguous(x.suggest_memory_format());
}
Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  Tensor y = at::native::math_pixel_unshuffle(x, factor);
  return factor == 1 ? x.clone(x.suggest_memory_format()) : y.contiguous(x.suggest_memory_format());
}

}  // namespace

void register_pixel_shuffle(torch::Library& m) {
  m.impl("pixel_shuffle", pixel_shuffle);
  m.impl("pixel_unshuffle", pixel_unshuffle);
}

}  // namespace lazuli::backend
