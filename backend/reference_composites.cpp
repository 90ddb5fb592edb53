// Reference mode: operators that torch decomposes above autograd, and into others for an accelerator than for the CPU. Where
// the CPU is the backing device they are written as it has them, so that its kernels are called, in its order.
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/NamedTensorUtils.h>
#include "backend/reference_recurrent.h"
#include "backend/registration.h"
#include "lazy/backing.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// Accelerators have a fused operator, whose factor is rounded elsewhere.
Tensor dropout(const Tensor& x, double p, bool train) {
  const bool drops = train && p > 0 && p < 1 && x.numel() > 0;
  if (!drops || lazy::backing().is_gpu()) return at::native::dropout(x, p, train);
  Tensor y;
  {
    at::NoNamesGuard guard;
    y = x * at::empty_like(x).bernoulli_(1 - p).div_(1 - p);
  }
  at::namedinference::propagate_names(y, x);
  return y;
}

}  // namespace

void register_reference_composites(torch::Library& m) {
  m.impl("dropout", dropout);
  register_reference_recurrent(m);
}

}  // namespace lazuli::backend
