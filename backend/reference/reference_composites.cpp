// Reference mode: operators that torch decomposes above autograd, and into others for an accelerator than for the CPU.
// Where the CPU is the backing device they are written as it has them, so that its kernels are called, in its order.
#include <ATen/ops/dropout_native.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/zeros.h>
#include "backend/record/registration.h"
#include "backend/reference/reference_recurrent.h"
#include "lazy/memory/backing.h"
#include "lazy/support/dimension_names.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// Accelerators have a fused operator, whose factor is rounded elsewhere.
Tensor dropout(const Tensor& x, double p, bool train) {
  const bool drops = train && p > 0 && p < 1 && x.numel() > 0;
  if (!drops || !lazy::backing().has_host_kernels) return at::native::dropout(x, p, train);
  Tensor y;
  {
    lazy::NamesIgnored guard;
    y = x * at::empty_like(x).bernoulli_(1 - p).div_(1 - p);
  }
  lazy::copy_names(y, x);
  return y;
}

// Accelerators do not look for numbers that name no class.
Tensor one_hot(const Tensor& index, int64_t classes) {
  if (lazy::backing().has_host_kernels && index.scalar_type() == at::kLong && index.numel() > 0) {
    TORCH_CHECK(index.min().item<int64_t>() >= 0, "Class values must be non-negative.");
    TORCH_CHECK(classes < 1 || index.max().item<int64_t>() < classes, "Class values must be smaller than num_classes.");
  }
  return at::native::one_hot(index, classes);
}

}  // namespace

void register_reference_composites(torch::Library& m) {
  m.impl("one_hot", one_hot);
  m.impl("dropout", dropout);
  register_reference_recurrent(m);
}

}  // namespace lazuli::backend
