// Derivatives of rows that move elements.
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

Value zeros_like(Builder& b, Value x) { return b.full(b.shape(x), 0, b.dtype(x)); }

}  // namespace

void vjp_cat(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
             std::span<Value> out) {
  Size dim = a.attrs.number(0);
  Dims starts(b.shape(cotangents[0]).size(), 0), steps(starts.size(), 1);
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const Dims sizes = b.shape(a.inputs[i]);
    if (needs >> i & 1) out[i] = b.emit(Op::slice, {cotangents[0]}, Attrs().add(starts).add(sizes).add(steps));
    starts[dim] += sizes[dim];
  }
}

void vjp_pad(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
             std::span<Value> out) {
  Value gy = cotangents[0];
  Dims low(a.attrs.list(0)), high(a.attrs.list(1));
  for (auto* amounts : {&low, &high})
    for (Size& n : *amounts) n = -n;
  Value gx = b.emit(Op::pad, {gy, b.constant(0, b.dtype(gy))}, Attrs().add(low).add(high));
  if (needs & 1) out[0] = gx;
  if (needs & 2) {  // what went to the border: everything that did not go to x
    for (auto* amounts : {&low, &high})
      for (Size& n : *amounts) n = min(n, 0);
    Value inner = b.emit(Op::pad, {gy, b.constant(0, b.dtype(gy))}, Attrs().add(low).add(high));
    out[1] = b.sub(b.sum_to(gy, {}), b.sum_to(inner, {}));
  }
}

void vjp_gather(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  out[0] = b.emit(Op::scatter_add, {zeros_like(b, a.inputs[0]), a.inputs[1], cotangents[0]}, a.attrs);
}

void vjp_scatter(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                 std::span<Value> out) {
  Value gy = cotangents[0], index = a.inputs[1];
  if (needs & 1) out[0] = b.emit(Op::scatter, {gy, index, zeros_like(b, a.inputs[2])}, a.attrs);
  if (needs & 4) out[2] = b.emit(Op::gather, {gy, index}, a.attrs);
}

void vjp_scatter_add(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                     std::span<Value> out) {
  if (needs & 1) out[0] = cotangents[0];
  if (needs & 4) out[2] = b.emit(Op::gather, {cotangents[0], a.inputs[1]}, a.attrs);
}

void vjp_index_select(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                      std::span<Value> out) {
  out[0] = b.emit(Op::index_add, {zeros_like(b, a.inputs[0]), a.inputs[1], cotangents[0]}, a.attrs);
}

void vjp_index_add(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                   std::span<Value> out) {
  if (needs & 1) out[0] = cotangents[0];
  if (needs & 4) out[2] = b.emit(Op::index_select, {cotangents[0], a.inputs[1]}, a.attrs);
}

void vjp_index_copy(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                    std::span<Value> out) {
  Value gy = cotangents[0], index = a.inputs[1];
  if (needs & 1) out[0] = b.emit(Op::index_copy, {gy, index, zeros_like(b, a.inputs[2])}, a.attrs);
  if (needs & 4) out[2] = b.emit(Op::index_select, {gy, index}, a.attrs);
}

}  // namespace lazuli::ir
