// Between the executor's buffers and tensors of the backing device; nothing is copied.
#pragma once
#include <ATen/core/Tensor.h>
#include "jit/run/executable.h"

namespace lazuli::lazy {

// A tensor over `data`, whose `owner` it keeps. Strides are not negative. That the memory is the backing device's is
// taken on trust: memory of no bytes has no address that CUDA knows, and asking costs a microsecond.
at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                       std::shared_ptr<void> owner);

// One in that storage, as it is made without asking torch's dispatcher.
at::Tensor tensor_in(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                     c10::ScalarType type);

// The same over a dense row-major value of this type.
at::Tensor tensor_over(const jit::Buffer& buffer, const ir::Type& type);

// A tensor over the window. It does not keep the buffer alive; strides are not negative.
at::Tensor tensor_over(const jit::BufferView& view);

// Whether torch's allocator for the host gave the memory. It did not give a GPU's, our own, or somebody else's, such as
// numpy's.
bool is_of_torch_on_host(const at::Tensor& t);

// The memory of a dense tensor that begins its storage; the buffer keeps the tensor alive.
jit::Buffer buffer_of(const at::Tensor& dense);

}  // namespace lazuli::lazy
