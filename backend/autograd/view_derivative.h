// The derivative of a view. Making a view records nothing, as the tensor is another window on the same memory; but what
// it does to dimensions is linear, so backward needs no more than the numbers that say what it does.
#pragma once
#include <ATen/core/Tensor.h>
#include "lazy/record/recording.h"
#include "lazy/support/block_pool.h"

namespace lazuli::backend {

struct ViewDerivative final : lazy::Pooled<ViewDerivative, 128> {
  enum class Form : uint8_t {
    Reshape,
    Broadcast,
    Permute,  // `numbers`: the order of dimensions that undoes it
    Slice,    // `numbers`: dimension, first index, count, step; the result may lack the dimension
    Split,    // `numbers`: dimension, count for each result; likewise
  };
  Form form;
  ir::Dims sizes;  // of what is viewed
  ir::Dims numbers;

  // The gradient of what is viewed, from those of the results, of which at least one is there.
  ir::Value gradient(lazy::Recording& r, std::span<const ir::Value> results) const;
  // A tensor for that gradient, in memory as torch leaves it: what was permuted stays where it is.
  at::Tensor gradient_tensor(lazy::Recording& r, ir::Value g, c10::ScalarType type) const;
  // The same by torch's operators, which can be differentiated and batched.
  at::Tensor gradient(at::ArrayRef<at::Tensor> results) const;

 private:
  ir::Dims piece(size_t result) const;
};

}  // namespace lazuli::backend
