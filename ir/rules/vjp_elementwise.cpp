// Derivatives of elementwise rows that are better written by hand than derived from the body.
#include "ir/autodiff.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

struct Unary {
  Builder& b;
  Value x, gy;
  Unary(Builder& b, const Application& a, std::span<const Value> cotangents)
      : b(b), x(a.inputs[0]), gy(cotangents[0]) {}
  Value op(Op o, Value v) { return b.emit(o, {v}); }
};

Value zero_like(Builder& b, Value x) { return b.constant(0, b.dtype(x)); }
Value where(Builder& b, Value condition, Value x) { return b.emit(Op::where, {condition, x, zero_like(b, x)}); }

}  // namespace

void vjp_zero(Builder&, const Application&, std::span<const Value>, uint32_t, std::span<Value>) {}

void vjp_stands_for(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t,
                    std::span<Value> out) {
  out[1] = fit(b, cotangents[0], a.inputs[1]);
}

void vjp_convert(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  if (is_floating(b.dtype(cotangents[0]))) out[0] = b.convert(cotangents[0], b.dtype(a.inputs[0]));
}

void vjp_abs(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Unary u(b, a, cotangents);
  out[0] = b.mul(u.gy, u.op(Op::sign, u.x));
}

void vjp_hypot(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
               std::span<Value> out) {
  Value y = a.results.empty() ? b.emit(Op::hypot, a.inputs, {}) : a.results[0];
  for (int i = 0; i < 2; ++i)
    if (needs >> i & 1) out[i] = fit(b, b.mul(cotangents[0], b.div(a.inputs[i], y)), a.inputs[i]);
}

void vjp_asinh(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Unary u(b, a, cotangents);
  out[0] = b.mul(u.gy, u.op(Op::rsqrt, b.add(b.mul(u.x, u.x), 1)));
}

void vjp_acosh(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Unary u(b, a, cotangents);
  out[0] = b.mul(u.gy, u.op(Op::rsqrt, b.add(b.mul(u.x, u.x), -1)));
}

void vjp_atanh(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Unary u(b, a, cotangents);
  out[0] = b.div(u.gy, b.sub(b.constant(1, b.dtype(u.x)), b.mul(u.x, u.x)));
}

void vjp_relu(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t, std::span<Value> out) {
  Value y = a.results.empty() ? a.inputs[0] : a.results[0];
  out[0] = b.emit(Op::threshold_backward, {cotangents[0], y, zero_like(b, y)});
}

void vjp_clamp(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
               std::span<Value> out) {
  Value x = a.inputs[0], low = a.inputs[1], high = a.inputs[2], gy = cotangents[0];
  auto both = [&](Op op, Value p, Value q) { return b.emit(op, {p, q}); };
  if (needs & 1) {
    Value inside = both(Op::logical_and, both(Op::ge, x, low), both(Op::le, x, high));
    out[0] = fit(b, where(b, inside, gy), x);
  }
  if (needs & 2) {
    Value below = both(Op::logical_and, both(Op::lt, low, high), both(Op::lt, x, low));
    out[1] = fit(b, where(b, below, gy), low);
  }
  if (needs & 4) {
    Value above = both(Op::logical_or, both(Op::gt, x, high), both(Op::lt, high, low));
    out[2] = fit(b, where(b, above, gy), high);
  }
}

namespace {

// At the bound itself x gets the whole derivative.
void clamp_side(Builder& b, const Application& a, Value gy, Op inside, Op outside, uint32_t needs,
                std::span<Value> out) {
  Value x = a.inputs[0], bound = a.inputs[1];
  if (needs & 1) out[0] = fit(b, where(b, b.emit(inside, {x, bound}), gy), x);
  if (needs & 2) out[1] = fit(b, where(b, b.emit(outside, {x, bound}), gy), bound);
}

}  // namespace

void vjp_clamp_min(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                   std::span<Value> out) {
  clamp_side(b, a, cotangents[0], Op::ge, Op::lt, needs, out);
}

void vjp_clamp_max(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                   std::span<Value> out) {
  clamp_side(b, a, cotangents[0], Op::le, Op::gt, needs, out);
}

}  // namespace lazuli::ir
