// Float32 as bytes, by what range it has. The formulas are those by which torch's quantized products choose a scale and
// a zero for their operand, in their types and their order of rounding.
#include "ir/rules/check.h"
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

constexpr float kLeastScale = 6.1e-5f;
constexpr double kScaleOfNothing = 0.1;

// What the scale is at first, and the range as it is then.
struct Range {
  Value low, high, scale;
};

Value choose(Builder& b, Value condition, Value yes, Value no) { return b.emit(Op::where, {condition, yes, no}); }

// Where the scale would be too small, the smallest there is, and the range that belongs to it.
Range widened(Builder& b, Range r, double most) {
  const auto number = [&](double v) { return b.constant(v, DType::F32); };
  const Value small = b.emit(Op::lt, {r.scale, b.constant(kLeastScale, DType::F64)});
  const Value gain = b.div(number(kLeastScale), b.convert(r.scale, DType::F32));
  const Value reach = number(kLeastScale * static_cast<float>(most)), zero = number(0);
  const Value from_zero = b.emit(Op::eq, {r.low, zero}), to_zero = b.emit(Op::eq, {r.high, zero});
  const Value low = choose(b, from_zero, r.low, choose(b, to_zero, b.neg(reach), b.mul(r.low, gain)));
  const Value high = choose(b, from_zero, reach, choose(b, to_zero, r.high, b.mul(r.high, gain)));
  return {choose(b, small, low, r.low), choose(b, small, high, r.high),
          choose(b, small, b.constant(kLeastScale, DType::F64), r.scale)};
}

Range range_of(Builder& b, Value x, double most) {
  Dims dims;
  for (int64_t d = 0; d < b.type(x).rank(); ++d) dims.push_back(d);
  const Attrs over = Attrs().add(dims).add(0);
  const Value zero = b.constant(0, DType::F32), one = b.constant(1, DType::F32);
  const Value low = b.emit(Op::minimum, {b.emit(Op::amin, {x}, over), zero});
  const Value high = b.emit(Op::maximum, {b.emit(Op::amax, {x}, over), zero});
  const Value width = b.sub(b.convert(high, DType::F64), b.convert(low, DType::F64));
  const Value scale = b.div(width, b.constant(most, DType::F64)), narrow = b.convert(scale, DType::F32);
  const Value none = b.emit(Op::logical_or, {b.emit(Op::eq, {narrow, zero}), b.emit(Op::isinf, {b.div(one, narrow)})});
  return widened(b, {low, high, choose(b, none, b.constant(kScaleOfNothing, DType::F64), scale)}, most);
}

// From the end of the range that is nearer to zero, for its error is smaller.
Value zero_of(Builder& b, const Range& r, double most) {
  const Value end = b.constant(most, DType::F64), start = b.constant(0, DType::F64);
  const Value below = b.div(b.convert(r.low, DType::F64), r.scale);
  const Value above = b.div(b.convert(r.high, DType::F64), r.scale);
  const Value is_below = b.emit(Op::lt, {b.neg(b.emit(Op::abs, {below})), b.sub(end, b.emit(Op::abs, {above}))});
  const Value zero = choose(b, is_below, b.sub(start, below), b.sub(end, above));
  return b.convert(b.emit(Op::clamp, {b.emit(Op::round, {zero}), start, end}), DType::I32);
}

}  // namespace

void infer_quantize_dynamic(std::span<const Type* const> in, const Attrs& attrs, std::span<Type> out) {
  if (in[0]->dtype != DType::F32) type_error("quantize_dynamic: ", to_string(*in[0]), " is not float32");
  if (attrs.number(0) != 127 && attrs.number(0) != 255) type_error("quantize_dynamic: a range of ", attrs.number(0));
  out[0] = {DType::I8, in[0]->shape};
  out[1] = {DType::F32, {}};
  out[2] = {DType::I32, {}};
}

void decompose_quantize_dynamic(Builder& b, const Application& a, std::span<Value> results) {
  const Value x = a.inputs[0];
  const auto most = static_cast<double>(a.attrs.number(0));
  const Range range = range_of(b, x, most);
  const Value zero = zero_of(b, range, most), scale = b.convert(range.scale, DType::F32);
  const Value steps = b.emit(Op::round, {b.mul(x, b.div(b.constant(1, DType::F32), scale))});
  const auto number = [&](double v) { return b.constant(v, DType::I32); };
  const Value shifted = b.sub(zero, number(128));
  const Value bytes = b.emit(Op::clamp, {b.add(b.convert(steps, DType::I32), shifted), number(-128), number(127)});
  results[0] = b.convert(bytes, DType::I8);
  results[1] = scale;
  results[2] = shifted;
}

}  // namespace lazuli::ir
