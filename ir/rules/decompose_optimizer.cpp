// Decompositions of optimizers' steps. The formulas are those of torch's fused kernels, in their order of rounding.
#include <tuple>
#include "ir/rules/check.h"
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// The parameter's and the gradient's shared beginning.
struct Step {
  Builder& b;
  const Application& a;
  Value skip;  // absent: never

  Step(Builder& builder, const Application& application, Value skipped) : b(builder), a(application) {
    if (skipped) skip = b.emit(Op::eq, {skipped, b.constant(1, b.dtype(skipped))});
  }
  Value wide(int i) const { return widen(b, a.inputs[i]); }
  DType type() const { return compute_type(b.dtype(a.inputs[0])); }
  Value number(int i) const { return b.convert(a.inputs[i], type()); }
  Value ascent(bool maximize) const { return maximize ? b.neg(wide(1)) : wide(1); }
  // What becomes of operand i: `v`, rounded, unless the step is skipped.
  Value result(int i, Value v) const {
    Value old = a.inputs[i];
    v = b.convert(v, b.dtype(old));
    return skip ? b.emit(Op::where, {skip, old, v}) : v;
  }
};

// 1 - (1 - decay) ** step, without the cancellation that float32 would suffer.
Value bias_correction(Builder& b, Value decay, Value step) {
  return b.neg(b.emit(Op::expm1, {b.mul(step, b.emit(Op::log1p, {b.neg(decay)}))}));
}

void infer_states(std::span<const Type* const> in, std::span<Type> out, size_t states) {
  for (size_t i = 1; i < states + 2; ++i)
    if (in[i] && (in[i]->dtype != in[0]->dtype || in[i]->shape != in[0]->shape))
      type_error("a step of ", to_string(*in[0]), " with ", to_string(*in[i]));
  for (Type& t : out) t = *in[0];
}

}  // namespace

void infer_adam_step(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  infer_states(in, out, 3);
  if (in[5] ? in[12] || in[13] : !in[12] || !in[13]) type_error("adam_step takes its step, or what follows from it");
}
void infer_sgd_step(std::span<const Type* const> in, const Attrs&, std::span<Type> out) { infer_states(in, out, 1); }
void infer_adagrad_step(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  infer_states(in, out, 1);
}

void decompose_adam_step(Builder& b, const Application& a, std::span<Value> results) {
  const Step s(b, a, a.inputs[11]);
  const Value rate = s.number(6), decay1 = s.number(7), decay2 = s.number(8), eps = s.number(10);
  const Value one = b.constant(1, s.type());
  Value x = s.wide(0), g = s.ascent(a.attrs.number(1));
  if (a.inputs[9] && a.attrs.number(0)) x = b.mul(x, b.sub(one, b.mul(rate, s.number(9))));
  if (a.inputs[9] && !a.attrs.number(0)) g = b.add(g, b.mul(x, s.number(9)));
  const Value mean = b.emit(Op::lerp, {s.wide(2), g, decay1});
  const Value square = b.add(b.mul(s.wide(3), b.sub(one, decay2)), b.mul(b.mul(decay2, g), g));
  const Value largest = a.inputs[4] ? b.emit(Op::maximum, {s.wide(4), square}) : square;
  const auto correction = [&](Value decay) { return bias_correction(b, decay, s.number(5)); };
  const Value size = a.inputs[5] ? b.div(rate, correction(decay1)) : s.number(12);
  const Value root = a.inputs[5] ? b.emit(Op::sqrt, {correction(decay2)}) : s.number(13);
  const Value divisor = b.add(b.div(b.emit(Op::sqrt, {largest}), root), eps);
  results[0] = s.result(0, b.sub(x, b.div(b.mul(size, mean), divisor)));
  results[1] = s.result(2, mean);
  results[2] = s.result(3, square);
  results[3] = a.inputs[4] ? s.result(4, largest) : results[2];
}

void decompose_sgd_step(Builder& b, const Application& a, std::span<Value> results) {
  const Step s(b, a, a.inputs[7]);
  const Value x = s.wide(0);
  Value g = s.ascent(a.attrs.number(1));
  if (a.inputs[6]) g = b.add(g, b.mul(x, s.number(6)));
  Value velocity = g;
  if (a.inputs[2]) velocity = b.add(b.mul(s.wide(2), s.number(4)), b.mul(g, s.number(5)));
  if (a.inputs[4]) g = a.attrs.number(0) ? b.add(g, b.mul(velocity, s.number(4))) : velocity;
  results[0] = s.result(0, b.sub(x, b.mul(g, s.number(3))));
  if (a.inputs[2]) {
    results[1] = s.result(2, velocity);
  } else {
    results[1] = b.convert(velocity, b.dtype(a.inputs[0]));
    // There is none to keep: the first step that counts finds it at rest.
    if (s.skip) results[1] = b.emit(Op::where, {s.skip, b.constant(0, b.dtype(results[1])), results[1]});
  }
}

void decompose_adagrad_step(Builder& b, const Application& a, std::span<Value> results) {
  const Step s(b, a, a.inputs[8]);
  const Value x = s.wide(0), one = b.constant(1, s.type());
  Value g = s.ascent(a.attrs.number(0));
  if (a.inputs[6]) g = b.add(g, b.mul(x, s.number(6)));
  const Value rate = b.div(s.number(4), b.add(one, b.mul(b.sub(s.number(3), one), s.number(5))));
  const Value sum = b.add(s.wide(2), b.mul(g, g));
  results[0] = s.result(0, b.sub(x, b.div(b.mul(rate, g), b.add(b.emit(Op::sqrt, {sum}), s.number(7)))));
  results[1] = s.result(2, sum);
}

}  // namespace lazuli::ir
