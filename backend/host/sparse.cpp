// Sparse tensors of the device: their indices and values are tensors of ours, and torch's own code keeps them. What
// computes on them is torch's kernel for the host.
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_sparse_mm_reduce_impl.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/ccol_indices_native.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/col_indices_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/crow_indices_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/resize_as_sparse_native.h>
#include <ATen/ops/row_indices_native.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/sspaddmm.h>
#include <ATen/ops/unsqueeze_native.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>
#include "backend/host/on_host.h"
#include "backend/loader/loader.h"

namespace lazuli::backend {
namespace {

namespace n = at::native;

// This kernel keeps what its derivative reads only if an operand requires a gradient.
std::tuple<at::Tensor, at::Tensor> mm_reduce(const at::Tensor& a, const at::Tensor& b, c10::string_view reduce) {
  at::Tensor x = a.cpu().detach(), y = b.cpu().detach();
  y.set_requires_grad(a.requires_grad() || b.requires_grad());
  auto [result, kept] = at::_sparse_mm_reduce_impl(x, y, reduce);
  return {result.to(a.device()), kept.defined() ? kept.to(a.device()) : kept};
}

// A kernel on the host has written a copy of this tensor.
at::Tensor copy_sparse_from(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor target = to;
  n::resize_as_sparse_(target, from);
  n::copy_sparse_(target, from);
  return target;
}
at::Tensor copy_compressed_from(const at::Tensor& from, const at::Tensor& to) {
  at::Tensor target = to;
  n::resize_as_sparse_compressed_(target, from);
  n::copy_sparse_compressed_(target, from);
  return target;
}

// Torch's smm hands itself its result as an addend, too: one tensor has one copy on the host.
at::Tensor& sspaddmm_out(const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, const at::Scalar& beta,
                         const at::Scalar& alpha, at::Tensor& out) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sspaddmm", "out");
  const lazy::ExternalTimer timer = announced_on_host(op);
  at::Tensor result = out.cpu();
  at::sspaddmm_out(result, self.is_same(out) ? result : self.cpu(), a.cpu(), b.cpu(), beta, alpha);
  copy_sparse_from(result, out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("_coalesced_", n::_coalesced_sparse_);
  m.impl("_copy_from_and_resize", copy_sparse_from);
  m.impl("_dimI", n::sparse_dim_sparse);
  m.impl("_dimV", n::dense_dim_sparse);
  m.impl("_indices", n::_indices_sparse);
  m.impl("_nnz", n::_nnz_sparse);
  m.impl("_sparse_coo_tensor_with_dims", n::new_with_dims_sparse);
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", n::new_with_dims_and_tensor_sparse_symint);
  m.impl("_values", n::_values_sparse);
  m.impl("clone", n::clone_sparse);
  m.impl("copy_", n::copy_sparse_wrapper_);
  m.impl("copy_sparse_to_sparse_", n::copy_sparse_);
  m.impl("dense_dim", n::dense_dim_sparse);
  m.impl("empty.memory_format", n::empty_sparse_symint);
  m.impl("empty_like", n::empty_like_sparse_coo);
  m.impl("indices", n::indices_sparse);
  m.impl("is_coalesced", n::is_coalesced_sparse);
  m.impl("resize_as_sparse_", n::resize_as_sparse_);
  m.impl("sparse_dim", n::sparse_dim_sparse);
  m.impl("sparse_resize_", n::sparse_resize_);
  m.impl("sparse_resize_and_clear_", n::sparse_resize_and_clear_);
  m.impl("sspaddmm.out", sspaddmm_out);
  m.impl("unsqueeze", n::unsqueeze_sparse);
  m.impl("values", n::values_sparse);
  m.impl("zero_", n::zero_sparse_);
  rest_on_host<c10::DispatchKey::SparseCPU, c10::DispatchKey::SparsePrivateUse1>(m);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("_copy_from_and_resize", copy_compressed_from);
  m.impl("_nnz", n::_nnz_sparse_csr);
  m.impl("_sparse_mm_reduce_impl", mm_reduce);
  m.impl("ccol_indices", n::ccol_indices_sparse_csr);
  m.impl("clone", n::clone_sparse_compressed);
  m.impl("col_indices", n::col_indices_sparse_csr);
  m.impl("copy_", n::copy_sparse_compressed_);
  m.impl("crow_indices", n::crow_indices_sparse_csr);
  m.impl("dense_dim", n::dense_dim_sparse_csr);
  m.impl("empty.memory_format", n::empty_sparse_compressed_symint);
  m.impl("empty_like", n::empty_like_sparse_csr);
  m.impl("resize_as_sparse_", n::resize_as_sparse_compressed_);
  m.impl("row_indices", n::row_indices_sparse_csr);
  m.impl("sparse_dim", n::sparse_dim_sparse_csr);
  m.impl("values", n::values_sparse_csr);
  m.impl("zero_", n::zero_sparse_csr_);
  rest_on_host<c10::DispatchKey::SparseCsrCPU, c10::DispatchKey::SparseCsrPrivateUse1>(m);
}

[[maybe_unused]] const bool are_sparse_fallbacks =
    set_fallback(c10::DispatchKey::SparsePrivateUse1, &on_host<c10::DispatchKey::SparseCPU>) &&
    set_fallback(c10::DispatchKey::SparseCsrPrivateUse1, &on_host<c10::DispatchKey::SparseCsrCPU>);

}  // namespace lazuli::backend
