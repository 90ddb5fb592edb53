// Shape rules of rows that move elements.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

void check_index(const Type& index, const char* op) {
  if (index.dtype != DType::I64 && index.dtype != DType::I32)
    type_error(op, "(): Expected dtype int32 or int64 for index");
}

// Gather and scatter: equal ranks, and the index no larger than the tensor apart from `dim`.
void check_pointwise_index(const Type& x, const Type& index, Size dim, const char* what) {
  if (index.rank() != x.rank()) type_error("Index tensor must have the same number of dimensions as ", what, " tensor");
  check_dim(dim, x.rank());
  for (Size d = 0; d < x.rank(); ++d)
    if (d != dim && index.shape[d] > x.shape[d])
      type_error("Size does not match at dimension ", d, " expected index ", list_text(index.shape),
                 " to be no larger than self ", list_text(x.shape), " apart from dimension ", dim);
}

Dims selected_shape(const Type& x, const Type& index, Size dim) {
  Dims shape;
  for (Size d = 0; d < x.rank(); ++d) {
    if (d == dim)
      shape.append(index.shape);
    else
      shape.push_back(x.shape[d]);
  }
  return shape;
}

}  // namespace

void infer_cat(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (in.empty()) type_error("torch.cat(): expected a non-empty list of Tensors");
  Size dim = attrs.number(0), rank = in[0]->rank();
  check_dim(dim, rank);
  out[0] = *in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    const Type& t = *in[i];
    if (t.dtype != out[0].dtype) type_error("cat: operands have different types");
    if (t.rank() != rank) type_error("Tensors must have same number of dimensions: got ", rank, " and ", t.rank());
    for (Size d = 0; d < rank; ++d)
      if (d != dim && t.shape[d] != out[0].shape[d])
        type_error("Sizes of tensors must match except in dimension ", dim, ". Expected size ", out[0].shape[d],
                   " but got size ", t.shape[d], " for tensor number ", i, " in the list.");
    out[0].shape[dim] += t.shape[dim];
  }
}

void infer_pad(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto low = attrs.list(0), high = attrs.list(1);
  const Type& x = *in[0];
  if (low.size() != x.shape.size() || high.size() != x.shape.size() || in[1]->rank() != 0 || in[1]->dtype != x.dtype)
    type_error("pad: expected amounts for each dimension, and a 0-dim value of the operand's type");
  out[0] = x;
  for (size_t i = 0; i < low.size(); ++i) {
    out[0].shape[i] += low[i] + high[i];
    if (out[0].shape[i] < 0)
      type_error("The input size ", x.shape[i], ", plus negative padding ", low[i], " and ", high[i],
                 " resulted in a negative output size, which is invalid. Check dimension ", i, " of your input.");
  }
}

void infer_gather(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_index(*in[1], "gather");
  check_pointwise_index(*in[0], *in[1], attrs.number(0), "input");
  out[0].dtype = in[0]->dtype;
  out[0].shape = in[1]->shape;
}

void infer_scatter(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_index(*in[1], "scatter");
  check_pointwise_index(*in[0], *in[1], attrs.number(0), "self");
  if (in[2]->dtype != in[0]->dtype) type_error("scatter(): Expected self.dtype to be equal to src.dtype");
  if (in[2]->shape != in[1]->shape) type_error("scatter(): Expected src and index to have one shape");
  out[0] = *in[0];
}

void infer_index_select(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_index(*in[1], "index_select");
  check_dim(attrs.number(0), in[0]->rank());
  out[0].dtype = in[0]->dtype;
  out[0].shape = selected_shape(*in[0], *in[1], attrs.number(0));
}

void infer_index_add(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  check_index(*in[1], "index_add_");
  Size dim = attrs.number(0);
  check_dim(dim, in[0]->rank());
  if (in[2]->dtype != in[0]->dtype) type_error("index_add_(): self and source must have the same scalar type");
  if (in[1]->rank() == 1 && in[2]->rank() == in[0]->rank() && in[2]->shape[dim] != in[1]->shape[0])
    type_error("index_add_(): Number of indices (", in[1]->shape[0], ") should be equal to source.size(dim): (",
               in[2]->shape[dim], "), for dim: ", dim);
  if (in[2]->shape != selected_shape(*in[0], *in[1], dim))
    type_error("source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
               list_text(in[0]->shape), " source.shape = ", list_text(in[2]->shape));
  out[0] = *in[0];
}

int64_t terms_scatter(std::span<const Type* const> in, const Attrs&, const Type&) { return in[1]->numel(); }

}  // namespace lazuli::ir
