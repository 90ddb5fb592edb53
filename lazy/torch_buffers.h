// Between the executor's buffers and tensors of the backing device; nothing is copied.
#pragma once
#include <ATen/core/Tensor.h>
#include "jit/executable.h"

namespace lazuli::lazy {

// A tensor over the window. It does not keep the buffer alive; strides are not negative.
at::Tensor tensor_over(const jit::BufferView& view);

// The memory of a dense tensor that begins its storage; the buffer keeps the tensor alive.
jit::Buffer buffer_of(const at::Tensor& dense);

}  // namespace lazuli::lazy
