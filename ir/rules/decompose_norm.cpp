// Decompositions of normalizations. The mean inside the variance is detached: the variance does not depend on it to
// first order, and the derived backward then needs two independent sums instead of two in a chain.
//
// A row that is `folded` multiplies weights and statistics out first: x * alpha + beta, as eager's kernels for the CPU
// do. The derivative stays that of the difference from the mean, whose sums cancel less.
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

struct Normalized {
  Value y, mean, scale, variance;  // all but y in the shape of the row's statistics
};

// (x - mean) / sqrt(variance + eps) over `dims`. Statistics are computed in the very shape in which the row gives them,
// so that the derived backward finds the saved ones wherever it needs them.
Normalized normalize(Builder& b, Value x, SizeSpan dims, SizeSpan statistics, Value eps) {
  Dims along = b.shape(x);
  for (Size d : dims) along[d] = 1;
  Value mean = b.reshape(b.mean(x, dims, true), statistics);
  Value centered = b.sub(x, b.reshape(b.emit(Op::detach, {mean}), along));
  Value variance = b.reshape(b.mean(b.mul(centered, centered), dims, true), statistics);
  Value scale = b.emit(Op::rsqrt, {b.add(variance, b.convert(eps, b.dtype(x)))});
  Value y = b.mul(b.sub(x, b.reshape(mean, along)), b.reshape(scale, along));
  return {y, mean, scale, variance};
}

Value affine(Builder& b, Value y, Value weight, Value bias, const Dims& shape) {
  if (weight) y = b.mul(y, b.reshape(widen(b, weight), shape));
  if (bias) y = b.add(y, b.reshape(widen(b, bias), shape));
  return y;
}

// (x - mean) * scale * weight + bias as x * alpha + beta. Statistics and parameters have, or broadcast to, x's shape.
Value folded(Builder& b, Value x, Value mean, Value scale, Value weight, Value bias) {
  Value alpha = weight ? b.mul(scale, weight) : scale;
  Value shift = b.mul(mean, alpha);
  Value beta = bias ? b.sub(bias, shift) : b.neg(shift);
  return b.emit(Op::multiply_add, {x, alpha, beta});
}

// The affine parameters in `shape`, where there are some.
Value parameter(Builder& b, Value p, const Dims& shape) { return p ? b.reshape(widen(b, p), shape) : p; }

Dims all_but(const Dims& shape, size_t kept) {
  Dims dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (i != kept) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Dims channel_shape(const Dims& shape) {
  Dims s(shape.size(), 1);
  s[1] = shape[1];
  return s;
}

}  // namespace

void decompose_layer_norm(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  const Dims shape = b.shape(x);
  Dims dims;
  for (Size d = b.type(x).rank() - a.attrs.number(0); d < b.type(x).rank(); ++d) dims.push_back(d);
  Dims affine_shape(SizeSpan(shape).last(dims.size())), statistics = shape;
  for (Size d : dims) statistics[d] = 1;
  Normalized n = normalize(b, x, dims, statistics, a.inputs[3]);
  results[0] = b.convert(affine(b, n.y, a.inputs[1], a.inputs[2], affine_shape), b.dtype(a.inputs[0]));
  results[1] = n.mean;
  results[2] = n.scale;
}

void decompose_batch_norm(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  const Dims shape = b.shape(x);
  Normalized n = normalize(b, x, all_but(shape, 1), Dims{shape[1]}, a.inputs[3]);
  const Dims along = channel_shape(shape);
  Value y = affine(b, n.y, a.inputs[1], a.inputs[2], along);
  if (a.attrs.number(0)) {
    Value w = parameter(b, a.inputs[1], along), bias = parameter(b, a.inputs[2], along);
    y = b.emit(Op::stands_for, {folded(b, x, b.reshape(n.mean, along), b.reshape(n.scale, along), w, bias), y});
  }
  Size count = product(shape) / max(shape[1], 1);
  const Value unbiased = b.div(b.count(count, DType::F64), b.count(count - 1, DType::F64));
  results[0] = b.convert(y, b.dtype(a.inputs[0]));
  results[1] = n.mean;
  results[2] = n.scale;
  results[3] = b.mul(n.variance, b.convert(unbiased, b.dtype(n.variance)));
}

void decompose_batch_norm_inference(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  const Dims shape = b.shape(x), along = channel_shape(shape);
  Value mean = b.reshape(b.convert(a.inputs[3], b.dtype(x)), along);
  Value variance = b.convert(a.inputs[4], b.dtype(x));
  Value scale = b.emit(Op::rsqrt, {b.add(variance, b.convert(a.inputs[5], b.dtype(x)))});
  scale = b.reshape(scale, along);
  Value y = affine(b, b.mul(b.sub(x, mean), scale), a.inputs[1], a.inputs[2], along);
  if (a.attrs.number(0)) {
    Value w = parameter(b, a.inputs[1], along), bias = parameter(b, a.inputs[2], along);
    y = b.emit(Op::stands_for, {folded(b, x, mean, scale, w, bias), y});
  }
  results[0] = b.convert(y, b.dtype(a.inputs[0]));
}

void decompose_group_norm(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  const Dims shape = b.shape(x);
  Size groups = a.attrs.number(0);
  Dims grouped{shape[0], groups, groups ? product(shape) / max(shape[0] * groups, 1) : Size(0)};
  Normalized n = normalize(b, b.reshape(x, grouped), Dims{2}, Dims{shape[0], groups}, a.inputs[3]);
  Value y = affine(b, b.reshape(n.y, shape), a.inputs[1], a.inputs[2], channel_shape(shape));
  if (a.attrs.number(1) && (a.inputs[1] || a.inputs[2])) {
    const Size within = shape[1] / max(groups, 1);
    const Dims parts{shape[0], groups, within, product(shape) / max(shape[0] * shape[1], 1)};
    const Dims statistics{shape[0], groups, 1, 1}, channels{1, groups, within, 1};
    Value w = parameter(b, a.inputs[1], channels), bias = parameter(b, a.inputs[2], channels);
    Value value =
        folded(b, b.reshape(x, parts), b.reshape(n.mean, statistics), b.reshape(n.scale, statistics), w, bias);
    y = b.emit(Op::stands_for, {b.reshape(value, shape), y});
  }
  results[0] = b.convert(y, b.dtype(a.inputs[0]));
  results[1] = n.mean;
  results[2] = n.scale;
}

}  // namespace lazuli::ir
