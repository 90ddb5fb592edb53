// Shape rules of composites.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

Size channels(const Type& x) {
  if (x.rank() < 2) type_error("Expected more than 1 dimension, got ", x.rank());
  return x.shape[1];
}

void check_affine(const Type* p, SizeSpan shape, const char* what) {
  if (p && !std::ranges::equal(p->shape, shape))
    type_error("Expected ", what, " to be of shape ", list_text(shape), ", but got ", list_text(p->shape));
}

// Cotangents of x, weight and bias; the affine ones have `shape` and the weight's type.
void affine_gradients(const Type& x, const Type* weight, SizeSpan shape, std::span<Type> out) {
  out[0] = x;
  out[1] = {weight ? weight->dtype : x.dtype, Dims(shape)};
  out[2] = out[1];
}

SizeSpan normalized_shape(const Type& x, const Attrs& attrs) {
  Size count = attrs.number(0);
  if (count < 1 || count > x.rank())
    type_error("layer_norm: cannot normalize ", count, " dimensions of ", to_string(x));
  return SizeSpan(x.shape).last(count);
}

Dims statistics_shape(const Type& x, size_t normalized) {
  Dims shape = x.shape;
  std::fill(shape.end() - normalized, shape.end(), 1);
  return shape;
}

}  // namespace

void infer_second(std::span<const Type* const> in, const Attrs&, std::span<Type> out) { out[0] = *in[1]; }

void infer_softmax(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (attrs.number(0) != 0 || in[0]->rank() != 0) check_dim(attrs.number(0), in[0]->rank());
  out[0] = *in[0];
}

void infer_layer_norm(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  const Type& x = *in[0];
  auto shape = normalized_shape(x, attrs);
  for (const Type* p : {in[1], in[2]})
    if (p && !std::ranges::equal(p->shape, shape))
      type_error("Given normalized_shape=", list_text(p->shape), ", expected input with shape [*, ",
                 list_text(p->shape).substr(1), ", but got input of size", list_text(x.shape));
  out[0] = x;
  out[1] = {compute_type(x.dtype), statistics_shape(x, shape.size())};
  out[2] = out[1];
}

void infer_layer_norm_backward(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  affine_gradients(*in[1], in[4], normalized_shape(*in[1], attrs), out);
}

void infer_batch_norm(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type& x = *in[0];
  Size c = channels(x);
  check_affine(in[1], {&c, 1}, "weight");
  check_affine(in[2], {&c, 1}, "bias");
  out[0] = x;
  out[1] = {compute_type(x.dtype), {c}};
  out[2] = out[3] = out[1];
}

void infer_batch_norm_inference(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  const Type& x = *in[0];
  Size c = channels(x);
  check_affine(in[1], {&c, 1}, "weight");
  check_affine(in[2], {&c, 1}, "bias");
  check_affine(in[3], {&c, 1}, "running_mean");
  check_affine(in[4], {&c, 1}, "running_var");
  out[0] = x;
}

void infer_batch_norm_backward(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  Size c = channels(*in[1]);
  affine_gradients(*in[1], in[2], {&c, 1}, out);
}

void infer_group_norm(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  const Type& x = *in[0];
  Size c = channels(x), groups = attrs.number(0);
  if (groups < 1 || c % groups)
    type_error("Expected number of channels in input to be divisible by num_groups, but got input of shape ",
               list_text(x.shape), " and num_groups=", groups);
  check_affine(in[1], {&c, 1}, "weight");
  check_affine(in[2], {&c, 1}, "bias");
  out[0] = x;
  out[1] = {compute_type(x.dtype), {x.shape[0], groups}};
  out[2] = out[1];
}

void infer_group_norm_backward(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  Size c = channels(*in[1]);
  affine_gradients(*in[1], in[4], {&c, 1}, out);
}

void infer_nll_loss(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  const Type &x = *in[0], &target = *in[1];
  if (x.rank() < 1) type_error("input tensor should be 1D or 2D");
  Dims expected = x.shape;
  expected.erase(x.rank() == 1 ? 0 : 1);
  if (target.shape != expected) {
    if (x.rank() > 1 && target.rank() > 0 && target.shape[0] != x.shape[0])
      type_error("Expected input batch_size (", x.shape[0], ") to match target batch_size (", target.shape[0], ").");
    type_error("size mismatch (got input: ", list_text(x.shape), ", target: ", list_text(target.shape), ")");
  }
  Size classes = x.shape[x.rank() == 1 ? 0 : 1];
  if (in[2] && (in[2]->rank() != 1 || in[2]->shape[0] != classes))
    type_error("weight tensor should be defined either for all ", classes,
               " classes or no classes but got weight tensor "
               "of shape: ",
               list_text(in[2]->shape));
  out[0].dtype = out[1].dtype = x.dtype;
  out[0].shape = attrs.number(0) == 0 ? target.shape : Dims{};
  out[1].shape = {};
}

void infer_mse_loss(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (in[0]->dtype != in[1]->dtype) type_error("mse_loss: operands have different types");
  Dims shape = broadcast_shapes(in[0]->shape, in[1]->shape);
  out[0] = {in[0]->dtype, attrs.number(0) == 0 ? shape : Dims{}};
}

void infer_embedding_backward(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  const Type &gy = *in[0], &index = *in[1];
  if (gy.rank() != index.rank() + 1 || !std::equal(index.shape.begin(), index.shape.end(), gy.shape.begin()))
    type_error("embedding_backward: the cotangent ", to_string(gy), " does not fit the index ", to_string(index));
  out[0] = {gy.dtype, {attrs.size(0), gy.shape.back()}};
}

}  // namespace lazuli::ir
