#include "lazy/torch_buffers.h"

#include <ATen/ops/from_blob.h>
#include "lazy/backing.h"
#include "lazy/convert.h"
#include "lazy/memory.h"

namespace lazuli::lazy {

at::Tensor tensor_over(const jit::BufferView& v) {
  auto* first = static_cast<char*>(v.buffer.data) + v.offset * ir::item_size(v.type.dtype);
  return at::from_blob(first, to_ref(v.type.shape), to_ref(v.strides),
                       at::TensorOptions().dtype(to_torch(v.type.dtype)).device(backing().device()));
}

jit::Buffer buffer_of(const at::Tensor& t) {
  void* data = t.mutable_data_ptr();
  if (!data) return allocate_buffer(0);
  return {data, static_cast<size_t>(t.numel()) * t.itemsize(), std::shared_ptr<void>(data, [keep = t](void*) {})};
}

}  // namespace lazuli::lazy
