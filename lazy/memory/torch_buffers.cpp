#include "lazy/memory/torch_buffers.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/support/convert.h"

namespace lazuli::lazy {

at::Tensor tensor_over(void* data, at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType type,
                       std::shared_ptr<void> owner) {
  const c10::Device device = backing().device();
  c10::DataPtr memory(data, device);
  if (owner)
    memory = c10::DataPtr(
        data, new std::shared_ptr<void>(std::move(owner)),
        [](void* held) { delete static_cast<std::shared_ptr<void>*>(held); }, device);
  const size_t bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  return tensor_in(c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(memory)), sizes, strides, 0, type);
}

at::Tensor tensor_in(c10::Storage storage, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset,
                     c10::ScalarType type) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(backing().dispatch_key()), c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

at::Tensor tensor_over(const jit::Buffer& b, const ir::Type& t) {
  return tensor_over(b.data, to_ref(t.shape), to_ref(ir::contiguous_strides(t.shape)), to_torch(t.dtype), b.owner);
}

at::Tensor tensor_over(const jit::BufferView& v) {
  auto* first = static_cast<char*>(v.buffer.data) + v.offset * ir::item_size(v.type.dtype);
  return tensor_over(first, to_ref(v.type.shape), to_ref(v.strides), to_torch(v.type.dtype), nullptr);
}

bool is_of_torch_on_host(const at::Tensor& t) {
  return t.is_cpu() && t.storage().data_ptr().get_deleter() == c10::GetAllocator(c10::kCPU)->raw_deleter();
}

jit::Buffer buffer_of(const at::Tensor& t) {
  void* data = t.mutable_data_ptr();
  if (!data) return allocate_buffer(0);
  // A GPU's memory counts by itself, and our own has counted already.
  auto counted = is_of_torch_on_host(t) ? std::make_shared<CountedMemory>(t.storage().nbytes()) : nullptr;
  return {data, static_cast<size_t>(t.numel()) * t.itemsize(),
          std::shared_ptr<void>(data, [keep = t, counted = std::move(counted)](void*) {})};
}

}  // namespace lazuli::lazy
