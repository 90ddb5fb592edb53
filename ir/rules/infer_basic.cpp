// Shape rules of leaves, of elementwise rows that are not plain, and of reductions.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// The shape left after folding `dims` away.
Dims reduced_shape(const Type& x, SizeSpan dims, bool keepdim) {
  Dims shape;
  size_t next = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    check_dim(dims[i], x.rank());
    if (i && dims[i] == dims[i - 1]) type_error("dim ", dims[i], " appears multiple times in the list of dims");
    if (i && dims[i] < dims[i - 1]) type_error("a reduction's dims are not sorted");
  }
  for (Size d = 0; d < x.rank(); ++d) {
    bool folded = next < dims.size() && dims[next] == d;
    next += folded;
    if (!folded)
      shape.push_back(x.shape[d]);
    else if (keepdim)
      shape.push_back(1);
  }
  return shape;
}

bool folds_nothing(const Type& x, SizeSpan dims) {
  for (Size d : dims)
    if (x.shape[d] == 0) return true;
  return false;
}

}  // namespace

void infer_explicit(std::span<const Type* const>, const Attrs&, std::span<Type>) {}

void infer_iota(std::span<const Type* const>, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = DType::I64;
  out[0].shape.assign(attrs.list(0).data(), 1);
}

void infer_where(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  if (in[0]->dtype != DType::Bool)
    type_error("where expected condition to be a boolean tensor, but got a tensor with dtype ", name(in[0]->dtype));
  if (in[1]->dtype != in[2]->dtype)
    type_error("where: operands have different types, ", name(in[1]->dtype), " and ", name(in[2]->dtype));
  out[0].dtype = in[1]->dtype;
  out[0].shape = broadcast_shapes(broadcast_shapes(in[0]->shape, in[1]->shape), in[2]->shape);
}

void infer_bits(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  out[0] = *in[0];
  for (const Type* t : in) {
    if (is_floating(t->dtype)) type_error("bitwise operations are not implemented for ", name(t->dtype));
    if (t->dtype != in[0]->dtype) type_error("bitwise operations need operands of one type");
    broadcast_into(out[0].shape, t->shape);
  }
}

void infer_check_index(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  out[0] = *in[0];
  if (!is_integral(in[0]->dtype) || in[1]->dtype != in[0]->dtype)
    type_error("an index and its bound are integers of one type");
  broadcast_into(out[0].shape, in[1]->shape);
}

void infer_require(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  out[0] = *in[0];
  if (in[0]->dtype != DType::I64) type_error("require needs int64");
}

void infer_reduction(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  out[0].dtype = in[0]->dtype;
  out[0].shape = reduced_shape(*in[0], attrs.list(0), attrs.number(1));
}

void infer_truth(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  infer_reduction(in, attrs, out);
  out[0].dtype = DType::Bool;
}

void infer_extremum(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  infer_reduction(in, attrs, out);
  if (folds_nothing(*in[0], attrs.list(0)))
    type_error(
        "amax(): Expected reduction dim to be specified for input.numel() == 0. "
        "Specify the reduction dim with the 'dim' argument.");
}

void infer_arg_extremum(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  infer_reduction(in, attrs, out);
  size_t n = attrs.list(0).size();
  if (n != 1 && n != static_cast<size_t>(in[0]->rank())) type_error("argmax takes one dimension or all of them");
  if (folds_nothing(*in[0], attrs.list(0)))
    type_error("argmax(): Expected reduction dim to be specified for input.numel() == 0.");
  out[0].dtype = DType::I64;
}

void infer_var(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  infer_reduction(in, attrs, out);
}

}  // namespace lazuli::ir
