// Shape rules of views.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {

void infer_reshape(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto shape = attrs.list(0);
  bool negative = std::any_of(shape.begin(), shape.end(), [](Size n) { return n < 0; });
  if (negative || product(shape) != in[0]->numel())
    type_error("shape '", list_text(shape), "' is invalid for input of size ", in[0]->numel());
  out[0].dtype = in[0]->dtype;
  out[0].shape.assign(shape.data(), shape.size());
}

void infer_permute(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto order = attrs.list(0);
  const Type& x = *in[0];
  if (static_cast<int64_t>(order.size()) != x.rank())
    type_error(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
        "ordering of dimensions i.e. input.dim() = ",
        x.rank(), " is not equal to len(dims) = ", order.size());
  uint64_t seen = 0;
  out[0].dtype = x.dtype;
  out[0].shape.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    check_dim(order[i], x.rank());
    if (seen >> order[i] & 1) type_error("permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << order[i];
    out[0].shape[i] = x.shape[order[i]];
  }
}

void infer_broadcast(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto shape = attrs.list(0);
  const Dims& from = in[0]->shape;
  if (from.size() > shape.size())
    type_error("expand(", name(in[0]->dtype), "{", list_text(from), "}, size=", list_text(shape),
               "): the number of sizes provided (", shape.size(),
               ") must be greater or equal to the number of dimensions in the tensor (", from.size(), ")");
  size_t lead = shape.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1 && from[i] != shape[lead + i])
      type_error("The expanded size of the tensor (", shape[lead + i], ") must match the existing size (", from[i],
                 ") at non-singleton dimension ", lead + i, ".  Target sizes: ", list_text(shape),
                 ".  Tensor sizes: ", list_text(from));
  out[0].dtype = in[0]->dtype;
  out[0].shape.assign(shape.data(), shape.size());
}

void infer_slice(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto starts = attrs.list(0), sizes = attrs.list(1), steps = attrs.list(2);
  const Dims& from = in[0]->shape;
  if (starts.size() != from.size() || sizes.size() != from.size() || steps.size() != from.size())
    type_error("slice: starts, sizes and steps need one number per dimension");
  for (size_t i = 0; i < from.size(); ++i) {
    if (steps[i] < 1) type_error("slice step must be positive");
    if (sizes[i] < 0) type_error("narrow(): length must be non-negative.");
    if (starts[i] < 0 || (sizes[i] > 0 && starts[i] + (sizes[i] - 1) * steps[i] >= from[i]))
      type_error("start (", starts[i], ") + length (", sizes[i], ") exceeds dimension size (", from[i], ").");
  }
  out[0].dtype = in[0]->dtype;
  out[0].shape.assign(sizes.data(), sizes.size());
}

void infer_flip(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  uint64_t seen = 0;
  for (Size d : attrs.list(0)) {
    check_dim(d, in[0]->rank());
    if (seen >> d & 1) type_error("dim ", d, " appears multiple times in the list of dims");
    seen |= uint64_t{1} << d;
  }
  out[0] = *in[0];
}

namespace {

void check_window(const Type& x, SizeSpan shape, SizeSpan strides, Size offset) {
  if (shape.size() != strides.size()) type_error("mismatch in length of strides and shape");
  Size last = offset;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return;
    if (strides[i] < 0)
      type_error("as_strided: Negative strides are not supported at the moment, got strides: ", list_text(strides));
    last += (shape[i] - 1) * strides[i];
  }
  Size size = item_size(x.dtype);
  if (offset < 0 || last >= x.numel())
    type_error("setStorage: sizes ", list_text(shape), ", strides ", list_text(strides), ", storage offset ", offset,
               ", and itemsize ", size, " requiring a storage size of ", (last + 1) * size,
               " are out of bounds for storage of size ", x.bytes());
}

}  // namespace

void infer_as_strided(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  auto shape = attrs.list(0);
  check_window(*in[0], shape, attrs.list(1), attrs.size(2));
  out[0].dtype = in[0]->dtype;
  out[0].shape.assign(shape.data(), shape.size());
}

void infer_as_strided_scatter(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (in[0]->dtype != in[1]->dtype) type_error("as_strided_scatter: base and source differ in type");
  check_window(*in[0], in[1]->shape, attrs.list(0), attrs.size(1));
  out[0] = *in[0];
}

void infer_bitcast(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  DType dtype = static_cast<DType>(attrs.number(0));
  auto shape = attrs.list(1);
  if (product(shape) * item_size(dtype) != in[0]->bytes())
    type_error("cannot view ", to_string(*in[0]), " as ", name(dtype), list_text(shape));
  out[0].dtype = dtype;
  out[0].shape.assign(shape.data(), shape.size());
}

}  // namespace lazuli::ir
