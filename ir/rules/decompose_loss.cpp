// Decompositions of statistics and losses.
#include <limits>
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

Dims every_dim(const Dims& shape) {
  Dims dims;
  for (size_t i = 0; i < shape.size(); ++i) dims.push_back(static_cast<int64_t>(i));
  return dims;
}

Value total(Builder& b, Value x) { return b.sum(x, every_dim(b.shape(x)), false); }

}  // namespace

void decompose_mean(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  Value y = b.mean(x, a.attrs.list(0), a.attrs.number(1));
  results[0] = b.convert(y, b.dtype(a.inputs[0]));
}

// In two passes, less what a mean that is rounded has added to the squares (Chan, Golub, LeVeque, Algorithms for
// computing the sample variance, 1983, formula 1.7): so the variance of equal numbers is 0 as far as sums of such
// errors are exact. That part is 0 in exact numbers, and so has no derivative; of squares that overflow nothing is
// taken.
void decompose_var(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]);
  auto dims = a.attrs.list(0);
  Size count = 1;
  for (Size d : dims) count *= b.shape(x)[d];
  Value centered = b.sub(x, b.mean(x, dims, true));
  Value squares = b.sum(b.mul(centered, centered), dims, a.attrs.number(1));
  Value zero = b.constant(0, b.dtype(x)), n = b.count(count, b.dtype(x));
  Value rest = b.sum(centered, dims, a.attrs.number(1));
  Value excess = b.emit(Op::minimum, {b.mul(rest, b.div(rest, n)), squares});
  Value infinite = b.emit(Op::eq, {squares, b.constant(std::numeric_limits<double>::infinity(), b.dtype(x))});
  excess = b.emit(Op::where, {infinite, zero, excess});
  squares = b.sub(squares, b.emit(Op::detach, {excess}));
  Value freedom = b.sub(n, b.convert(a.inputs[1], b.dtype(x)));
  results[0] = b.convert(b.div(squares, b.emit(Op::maximum, {freedom, zero})), b.dtype(a.inputs[0]));
}

// The target picks by comparison with an iota rather than by a gather, so that it fuses with log_softmax.
void decompose_nll_loss(Builder& b, const Application& a, std::span<Value> results) {
  Value x = widen(b, a.inputs[0]), target = a.inputs[1];
  const Dims shape = b.shape(x), kept = b.shape(target);
  Size dim = shape.size() == 1 ? 0 : 1, classes = shape[dim];
  Dims class_shape(shape.size(), 1), target_shape = shape;
  class_shape[dim] = classes;
  target_shape[dim] = 1;
  Value zero = b.constant(0, b.dtype(x));
  Value iota = b.reshape(b.emit(Op::iota, std::span<const Value>(), Attrs{{classes}}), class_shape);
  Value target64 = b.convert(target, DType::I64);
  Value ignored = b.constant(static_cast<double>(a.attrs.number(1)), DType::I64);
  Value counts = b.emit(Op::ne, {target64, ignored});
  Value named = b.emit(Op::where, {counts, target64, b.constant(0, DType::I64)});
  named = b.emit(Op::check_index, {named, b.count(classes, DType::I64)});
  Value chosen = b.emit(Op::eq, {iota, b.reshape(named, target_shape)});
  Value picked = b.sum(b.emit(Op::where, {chosen, x, zero}), Dims{dim}, false);
  Value weight = b.full(kept, 1, b.dtype(x));
  if (a.inputs[2]) {
    Value by_class = b.reshape(b.convert(a.inputs[2], b.dtype(x)), class_shape);
    weight = b.sum(b.emit(Op::where, {chosen, by_class, zero}), Dims{dim}, false);
  }
  weight = b.emit(Op::where, {counts, weight, zero});
  Value loss = b.emit(Op::where, {counts, b.neg(b.mul(picked, weight)), zero});
  Value total_weight = total(b, weight);
  if (a.attrs.number(0) != kNone) loss = total(b, loss);
  if (a.attrs.number(0) == kMean) loss = b.div(loss, total_weight);
  results[0] = b.convert(loss, b.dtype(a.inputs[0]));
  results[1] = b.convert(total_weight, b.dtype(a.inputs[0]));
}

void decompose_mse_loss(Builder& b, const Application& a, std::span<Value> results) {
  Value d = b.sub(widen(b, a.inputs[0]), widen(b, a.inputs[1]));
  Value loss = b.mul(d, d);
  if (a.attrs.number(0) == kMean) loss = b.mean(loss, every_dim(b.shape(d)), false);
  if (a.attrs.number(0) == kSum) loss = total(b, loss);
  results[0] = b.convert(loss, b.dtype(a.inputs[0]));
}

}  // namespace lazuli::ir
