// F.one_hot. Torch looks for numbers that name no class only on devices where reading costs little; here the kernel
// finds them as it runs.
#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/max.h>
#include <ATen/ops/min.h>
#include <ATen/ops/one_hot_native.h>
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "backend/record/requirements.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// The least and the largest element; both are computed when the first is read.
std::pair<int64_t, int64_t> range_of(const Tensor& x) {
  const Tensor least = at::min(x), largest = at::max(x);
  const int64_t low = least.item<int64_t>();
  return {low, largest.item<int64_t>()};
}

Tensor one_hot(const Tensor& index, int64_t classes) {
  if (!is_ours(index) || index.scalar_type() != at::kLong || index.numel() == 0)
    return at::native::one_hot(index, classes);
  Tensor sound = index;
  if (classes > 0) {
    sound = required(sound, index >= 0, ir::Requirement::Class);
    sound = required(sound, index < classes, ir::Requirement::KnownClass);
  } else {
    const auto [least, largest] = range_of(index);
    TORCH_CHECK(least >= 0, "Class values must be non-negative.");
    TORCH_CHECK(classes == -1, "Class values must be smaller than num_classes.");
    classes = largest + 1;
  }
  const Tensor out = at::eq(sound.unsqueeze(-1), at::arange(classes, index.options())).to(at::kLong);
  // Torch's has been written twice by now: with zeros, and with ones.
  for (int i = 0; i < 2; ++i) out.unsafeGetTensorImpl()->bump_version();
  return out;
}

}  // namespace

void register_one_hot(torch::Library& m) { m.impl("one_hot", one_hot); }

}  // namespace lazuli::backend
