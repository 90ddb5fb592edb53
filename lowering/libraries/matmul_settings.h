// What the user lets a device's library do to matrix products.
#pragma once
#include <cstddef>

namespace lazuli::lowering {

// As torch.backends.cuda.matmul says, whoever made the GPU; the defaults are torch's.
struct MatmulSettings {
  bool tf32 = false;                             // float32 products through tensor cores
  bool bf16_reduced_precision_reduction = true;  // partial sums of a split product may be kept in the result's type
  bool f16_reduced_precision_reduction = true;
  size_t workspace_bytes = size_t{32} << 20;  // what NVIDIA recommends for Hopper
  friend bool operator==(const MatmulSettings&, const MatmulSettings&) = default;
};

}  // namespace lazuli::lowering
