// Nested tensors of the strided layout: their buffer is a tensor of ours, and torch's own code keeps it and its views.
// What computes on them is torch's kernel for the host, between copies.
#include <ATen/ops/_nested_from_padded_native.h>
#include <ATen/ops/_nested_tensor_size_native.h>
#include <ATen/ops/_nested_tensor_storage_offsets_native.h>
#include <ATen/ops/_nested_tensor_strides_native.h>
#include <ATen/ops/_nested_view_from_buffer_native.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/chunk_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/detach_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/fill_native.h>
#include <ATen/ops/is_same_size_native.h>
#include <ATen/ops/narrow_native.h>
#include <ATen/ops/select_native.h>
#include <ATen/ops/split_with_sizes_native.h>
#include <ATen/ops/squeeze_native.h>
#include <ATen/ops/transpose_native.h>
#include <ATen/ops/unbind_native.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zero_native.h>
#include "backend/host/on_host.h"
#include "backend/loader/loader.h"
#include "backend/record/registration.h"

namespace lazuli::backend {

namespace n = at::native;

namespace {

// Torch's copy takes the buffer as it lies, and so no tensor whose windows on it are not row-major.
at::Tensor copy_nested(const at::Tensor& self, std::optional<at::ScalarType> type, std::optional<at::Layout> layout,
                       std::optional<at::Device> device, std::optional<bool> pinned, bool non_blocking,
                       std::optional<at::MemoryFormat> format) {
  return n::_to_copy_nested(self.contiguous(), type, layout, device, pinned, non_blocking, format);
}

// A kernel on the host has written a copy of this tensor.
at::Tensor copy_nested_from(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor target = to;
  return n::copy_nested_(target, from);
}

}  // namespace

// These make nested tensors of others, by sizes that are always on the host.
void register_nested(torch::Library& m) {
  m.impl("_nested_from_padded", n::nested_from_padded_generic);
  m.impl("_nested_view_from_buffer", n::_nested_view_from_buffer);
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
  m.impl("_copy_from_and_resize", copy_nested_from);
  m.impl("_nested_tensor_size", n::_nested_tensor_size);
  m.impl("_nested_tensor_storage_offsets", n::_nested_tensor_storage_offsets);
  m.impl("_nested_tensor_strides", n::_nested_tensor_strides);
  m.impl("_to_copy", copy_nested);
  m.impl("alias", n::alias_nested);
  m.impl("chunk", n::chunk_nested_tensor);
  m.impl("clone", n::clone_nested);
  m.impl("copy_", n::copy_nested_);
  m.impl("detach", n::detach);
  m.impl("empty_like", n::empty_like_nested);
  m.impl("fill_.Scalar", static_cast<at::Tensor& (*)(at::Tensor&, const at::Scalar&)>(n::fill_nested_));
  m.impl("fill_.Tensor", static_cast<at::Tensor& (*)(at::Tensor&, const at::Tensor&)>(n::fill_nested_));
  m.impl("is_same_size", n::nested_is_same_size);
  m.impl("narrow", n::narrow_nested_symint);
  m.impl("select.int", n::select_nested);
  m.impl("split_with_sizes", n::split_with_sizes_nested);
  m.impl("squeeze", n::squeeze_nested);
  m.impl("squeeze.dim", static_cast<at::Tensor (*)(const at::Tensor&, int64_t)>(n::squeeze_dim_nested));
  m.impl("squeeze.dims", static_cast<at::Tensor (*)(const at::Tensor&, at::IntArrayRef)>(n::squeeze_dim_nested));
  m.impl("transpose.int", n::transpose_nested);
  m.impl("unbind.int", n::NestedTensor_unbind);
  m.impl("unsqueeze", n::unsqueeze_nested);
  m.impl("values", n::values_nested);
  m.impl("view", n::view_nested);
  m.impl("zero_", n::zero_nested_);
  rest_on_host<c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorPrivateUse1>(m);
}

[[maybe_unused]] const bool is_nested_fallback =
    set_fallback(c10::DispatchKey::NestedTensorPrivateUse1, &on_host<c10::DispatchKey::NestedTensorCPU>);

}  // namespace lazuli::backend
