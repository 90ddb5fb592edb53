#include "lazy/rows/torch_views.h"

#include <ATen/TensorUtils.h>
#include "lazy/support/convert.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using Sizes = at::DimVector;

Tensor over_memory_of(const Tensor& x, at::IntArrayRef sizes, at::IntArrayRef strides, int64_t offset) {
  auto view =
      at::detail::make_tensor<at::TensorImpl>(at::TensorImpl::VIEW, at::Storage(x.storage()), x.key_set(), x.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return view;
}

Tensor permuted(const Tensor& x, at::IntArrayRef order) {
  Sizes sizes, strides;
  for (int64_t d : order) sizes.push_back(x.size(d)), strides.push_back(x.stride(d));
  return over_memory_of(x, sizes, strides, x.storage_offset());
}

Tensor broadcast(const Tensor& x, at::IntArrayRef shape) {
  Sizes strides(shape.size(), 0);
  const size_t lead = shape.size() - x.sizes().size();
  for (size_t d = 0; d < x.sizes().size(); ++d)
    if (x.sizes()[d] == shape[lead + d]) strides[lead + d] = x.strides()[d];
  return over_memory_of(x, shape, strides, x.storage_offset());
}

Tensor sliced(const Tensor& x, at::IntArrayRef starts, at::IntArrayRef sizes, at::IntArrayRef steps) {
  Sizes strides;
  int64_t offset = x.storage_offset();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d]) offset += starts[d] * x.strides()[d];
    strides.push_back(x.strides()[d] * steps[d]);
  }
  return over_memory_of(x, sizes, strides, offset);
}

Tensor reshaped(const Tensor& x, at::IntArrayRef shape) {
  if (const auto strides = at::detail::computeStride(x.sizes(), x.strides(), Sizes(shape)))
    return over_memory_of(x, shape, *strides, x.storage_offset());
  return reshaped(x.contiguous(), shape);
}

}  // namespace

Tensor torch_view(const ir::Node& node, const Tensor& x) {
  const auto list = [&](size_t i) { return list_of(node.attrs, i); };
  switch (node.op) {
    case ir::Op::reshape:
      return reshaped(x, list(0));
    case ir::Op::permute:
      return permuted(x, list(0));
    case ir::Op::broadcast:
      return broadcast(x, list(0));
    case ir::Op::slice:
      return sliced(x, list(0), list(1), list(2));
    case ir::Op::as_strided: {
      const Tensor dense = x.contiguous();
      return over_memory_of(dense, list(0), list(1), dense.storage_offset() + node.attrs.number(2));
    }
    default:
      return {};
  }
}

}  // namespace lazuli::lazy
