// Derivatives of views: each is linear, so the rule is its transpose.
#include "ir/autodiff.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

Value zeros(Builder& b, const Type& type) { return b.full(type.shape, 0, type.dtype); }

// Whether two positions of a window share an element. Exact for windows whose strides nest, which is what views make;
// otherwise says that they may.
bool may_overlap(SizeSpan shape, SizeSpan strides) {
  std::vector<std::pair<Size, Size>> dims;  // stride, size
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] > 1) dims.push_back({strides[i], shape[i]});
  std::sort(dims.begin(), dims.end());
  Size reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

// i64 flat positions of a strided window's elements.
Value window_positions(Builder& b, SizeSpan shape, SizeSpan strides, Size offset) {
  Value at = b.broadcast(b.count(offset, DType::I64), shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    Dims along(shape.size(), 1);
    along[i] = shape[i];
    Value index = b.reshape(b.emit(Op::iota, std::span<const Value>(), Attrs{{shape[i]}}), along);
    at = b.add(at, b.mul(index, b.count(strides[i], DType::I64)));
  }
  return at;
}

}  // namespace

void vjp_reshape(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  out[0] = b.reshape(cotangents[0], b.shape(a.inputs[0]));
}

void vjp_permute(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  auto order = a.attrs.list(0);
  Dims inverse(order.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  out[0] = b.permute(cotangents[0], inverse);
}

void vjp_broadcast(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                   std::span<Value> out) {
  out[0] = b.sum_to(cotangents[0], b.shape(a.inputs[0]));
}

Value spread_slice(Builder& b, Value cotangent, const Type& x, SizeSpan starts, SizeSpan steps) {
  const Dims sizes = b.shape(cotangent);
  bool dense = true;
  Dims high, strides = contiguous_strides(x.shape);
  Size offset = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    dense &= steps[i] == 1 || sizes[i] <= 1;
    high.push_back(x.shape[i] - starts[i] - sizes[i]);
    offset += starts[i] * strides[i];
    strides[i] *= steps[i];
  }
  if (dense) return b.emit(Op::pad, {cotangent, b.constant(0, x.dtype)}, Attrs().add(starts).add(high));
  return b.emit(Op::as_strided_scatter, {zeros(b, x), cotangent}, Attrs().add(strides).add(offset));
}

void vjp_slice(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  out[0] = spread_slice(b, cotangents[0], b.type(a.inputs[0]), a.attrs.list(0), a.attrs.list(2));
}

void vjp_flip(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  out[0] = b.emit(Op::flip, {cotangents[0]}, a.attrs);
}

void vjp_as_strided(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  auto shape = a.attrs.list(0), strides = a.attrs.list(1);
  Size offset = a.attrs.size(2);
  Type x = b.type(a.inputs[0]);
  if (!may_overlap(shape, strides)) {
    out[0] = b.emit(Op::as_strided_scatter, {zeros(b, x), cotangents[0]}, Attrs().add(strides).add(offset));
    return;
  }
  Size count = product(shape), flat = x.numel();
  Value index = b.reshape(window_positions(b, shape, strides, offset), std::span(&count, 1));
  Value base = zeros(b, {x.dtype, {flat}});
  Value sum = b.emit(Op::index_add, {base, index, b.reshape(cotangents[0], std::span(&count, 1))}, Attrs{{0}});
  out[0] = b.reshape(sum, x.shape);
}

void vjp_as_strided_scatter(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                            std::span<Value> out) {
  auto strides = a.attrs.list(0);
  Size offset = a.attrs.size(1);
  Type src = b.type(a.inputs[1]);
  if (needs & 1) out[0] = b.emit(Op::as_strided_scatter, {cotangents[0], zeros(b, src)}, a.attrs);
  if (needs & 2) out[1] = b.emit(Op::as_strided, {cotangents[0]}, Attrs().add(src.shape).add(strides).add(offset));
}

}  // namespace lazuli::ir
