// Complex numbers: shape rules and decompositions, with the formulas of torch's kernels.
#include <cmath>
#include "ir/rules/check.h"
#include "ir/rules/decompose.h"
#include "ir/rules/formulas.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// The shape of what is complex, without the dimension of parts.
Dims shape_of_numbers(const Type& x) {
  if (x.rank() == 0 || x.shape.back() != 2 || !is_floating(x.dtype))
    type_error("expected the two parts of complex numbers, got ", to_string(x));
  return Dims(SizeSpan(x.shape).first(x.shape.size() - 1));
}

bool is_real(const Attrs& attrs, size_t operand) { return attrs.number(0) >> operand & 1; }

// The parts of an operand, along a last dimension of size 1.
struct Complex {
  Value re, im;
};

Value part(Builder& b, Value x, int64_t which) {
  Dims starts(b.shape(x).size(), 0), sizes = b.shape(x), steps(starts.size(), 1);
  starts.back() = which;
  sizes.back() = 1;
  return b.emit(Op::slice, {x}, Attrs().add(starts).add(sizes).add(steps));
}

Complex parts(Builder& b, Value x) { return {part(b, x, 0), part(b, x, 1)}; }

Value with_last_one(Builder& b, Value x) {
  Dims shape = b.shape(x);
  shape.push_back(1);
  return b.reshape(x, shape);
}

Complex parts(Builder& b, const Application& a, size_t operand) {
  const Value x = a.inputs[operand];
  if (!is_real(a.attrs, operand)) return parts(b, x);
  return {with_last_one(b, x), b.constant(0, b.dtype(x))};
}

Value together(Builder& b, Complex z) {
  const Dims shape = broadcast_shapes(b.shape(z.re), b.shape(z.im));
  const Value re = b.broadcast(z.re, shape), im = b.broadcast(z.im, shape);
  return b.emit(Op::cat, {re, im}, Attrs{{static_cast<int64_t>(shape.size()) - 1}});
}

Value where(Builder& b, Value condition, Value x, Value y) { return b.emit(Op::where, {condition, x, y}); }
Value equals(Builder& b, Value x, double number) { return b.emit(Op::eq, {x, b.constant(number, b.dtype(x))}); }

}  // namespace

void infer_complex_binary(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (in[0]->dtype != in[1]->dtype)
    type_error("operands have different types, ", name(in[0]->dtype), " and ", name(in[1]->dtype));
  const auto shape = [&](size_t i) { return is_real(attrs, i) ? in[i]->shape : shape_of_numbers(*in[i]); };
  out[0] = {in[0]->dtype, broadcast_shapes(shape(0), shape(1))};
  out[0].shape.push_back(2);
}

void infer_complex_unary(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  shape_of_numbers(*in[0]);
  out[0] = *in[0];
}

void infer_complex_abs(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  out[0] = {in[0]->dtype, shape_of_numbers(*in[0])};
}

void infer_polar(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  out[0] = {in[0]->dtype, broadcast_shapes(in[0]->shape, in[1]->shape)};
  out[0].shape.push_back(2);
}

void decompose_complex_mul(Builder& b, const Application& a, std::span<Value> results) {
  const Complex x = parts(b, a, 0), y = parts(b, a, 1);
  results[0] = together(b, {b.sub(b.mul(x.re, y.re), b.mul(x.im, y.im)), b.add(b.mul(x.re, y.im), b.mul(x.im, y.re))});
}

// Both parts of the divisor by the larger one of them (Smith's way), so that no square overflows. Sums of products are
// rounded once, as the compiler makes torch's.
void decompose_complex_div(Builder& b, const Application& a, std::span<Value> results) {
  const Complex x = parts(b, a, 0), y = parts(b, a, 1);
  const Value size_re = b.emit(Op::abs, {y.re}), size_im = b.emit(Op::abs, {y.im});
  const Value is_re = b.emit(Op::ge, {size_re, size_im});
  const Value large = where(b, is_re, y.re, y.im), small = where(b, is_re, y.im, y.re);
  const Value ratio = b.div(small, large);
  const auto multiply_add = [&](Value p, Value q, Value r) { return b.emit(Op::multiply_add, {p, q, r}); };
  const Value scale = b.div(b.constant(1, b.dtype(large)), multiply_add(small, ratio, large));
  const Value first_re = where(b, is_re, x.re, x.im), second_re = where(b, is_re, x.im, x.re);
  const Value re = multiply_add(second_re, ratio, first_re);
  const Value im = multiply_add(where(b, is_re, b.neg(x.re), x.im), ratio, where(b, is_re, x.im, b.neg(x.re)));
  const Value by_zero = b.emit(Op::logical_and, {equals(b, size_re, 0), equals(b, size_im, 0)});
  const Value factor = where(b, by_zero, b.constant(kInfinity, b.dtype(scale)), scale);
  results[0] = together(b, {b.mul(where(b, by_zero, x.re, re), factor), b.mul(where(b, by_zero, x.im, im), factor)});
}

void decompose_complex_conj(Builder& b, const Application& a, std::span<Value> results) {
  const Complex x = parts(b, a.inputs[0]);
  results[0] = together(b, {x.re, b.neg(x.im)});
}

// A factor is left out of an exponential that would overflow before its product with a sine does.
void decompose_complex_exp(Builder& b, const Application& a, std::span<Value> results) {
  constexpr double kShift = 64;
  const Complex x = parts(b, a.inputs[0]);
  const DType t = b.dtype(x.re);
  const Value zero = b.constant(0, t);
  const Value is_large = b.emit(Op::gt, {x.re, b.constant(t == DType::F64 ? 700 : 88, t)});
  const Value size = b.emit(Op::exp, {b.sub(x.re, where(b, is_large, b.constant(kShift, t), zero))});
  const Value factor = where(b, is_large, b.constant(std::exp(kShift), t), b.constant(1, t));
  // Of -inf the limit is 0 along every line, and of a real number the result is real.
  const Value angle = where(b, equals(b, x.re, -kInfinity), zero, x.im);
  const Value is_finite = b.emit(Op::lt, {b.emit(Op::abs, {angle}), b.constant(kInfinity, t)});
  const Value is_unbounded =
      b.emit(Op::logical_and, {equals(b, x.re, kInfinity), b.emit(Op::logical_not, {is_finite})});
  const Value re = b.mul(b.mul(size, b.emit(Op::cos, {angle})), factor);
  const Value im = b.mul(b.mul(size, b.emit(Op::sin, {angle})), factor);
  results[0] =
      together(b, {where(b, is_unbounded, b.constant(kInfinity, t), re), where(b, equals(b, angle, 0), angle, im)});
}

void decompose_complex_sgn(Builder& b, const Application& a, std::span<Value> results) {
  const Complex x = parts(b, a.inputs[0]);
  const Value size = b.emit(Op::hypot, {x.re, x.im}), is_zero = equals(b, size, 0);
  const Value zero = b.constant(0, b.dtype(size));
  results[0] = together(b, {where(b, is_zero, zero, b.div(x.re, size)), where(b, is_zero, zero, b.div(x.im, size))});
}

void decompose_complex_abs(Builder& b, const Application& a, std::span<Value> results) {
  const Complex x = parts(b, a.inputs[0]);
  results[0] = b.reshape(b.emit(Op::hypot, {x.re, x.im}), shape_of_numbers(b.type(a.inputs[0])));
}

void decompose_polar(Builder& b, const Application& a, std::span<Value> results) {
  const Value size = with_last_one(b, a.inputs[0]), angle = with_last_one(b, a.inputs[1]);
  results[0] = together(b, {b.mul(size, b.emit(Op::cos, {angle})), b.mul(size, b.emit(Op::sin, {angle}))});
}

}  // namespace lazuli::ir
