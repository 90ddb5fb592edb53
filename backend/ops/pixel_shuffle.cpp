// Pixel shuffling, which torch writes for the CPU with a memory format of its own.
#include <ATen/ops/pixel_shuffle_native.h>
#include <ATen/ops/pixel_unshuffle_native.h>
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

Tensor pixel_shuffle(const Tensor& x, int64_t factor) {
  return at::native::math_pixel_shuffle(x, factor).clone(x.suggest_memory_format());
}
Tensor pixel_unshuffle(const Tensor& x, int64_t factor) {
  return at::native::math_pixel_unshuffle(x, factor).clone(x.suggest_memory_format());
}

}  // namespace

void register_pixel_shuffle(torch::Library& m) {
  m.impl("pixel_shuffle", pixel_shuffle);
  m.impl("pixel_unshuffle", pixel_unshuffle);
}

}  // namespace lazuli::backend
