// The derivative of a product, and the derivative of that.
#include "ir/rules/decompose.h"
#include "ir/rules/rules.h"
#include "ir/rules/scans.h"

namespace lazuli::ir {
namespace {

// As the operand, with size 1 where dimensions are folded.
Value with_folded(Builder& b, SizeSpan dims, Value folded, Value x) {
  Dims shape = b.shape(x);
  for (Size d : dims) shape[d] = 1;
  return b.reshape(folded, shape);
}

// The operand with the folded dimensions as one: the only one in its place, several as the last.
class Lines {
 public:
  Lines(Builder& b, SizeSpan dims, size_t rank) : b_(b), folded_(dims.size()), back_(rank, 0) {
    const bool one = folded_ == 1;
    for (size_t d = 0; d < rank; ++d)
      if (one || std::ranges::find(dims, Size(d)) == dims.end()) order_.push_back(d);
    dim = one ? dims[0] : Size(order_.size());
    if (!one)
      for (Size d : dims) order_.push_back(d);
    for (size_t i = 0; i < rank; ++i) back_[order_[i]] = i;
  }
  Value of(Value x) const {
    const Value moved = b_.permute(x, order_);
    if (folded_ == 1) return moved;
    const SizeSpan shape = b_.shape(moved);
    Dims lines(shape.first(shape.size() - folded_));
    lines.push_back(product(shape.last(folded_)));
    return b_.reshape(moved, lines);
  }
  Value back(Value lines, SizeSpan shape) const {
    Dims moved;
    for (Size d : order_) moved.push_back(shape[d]);
    return b_.permute(b_.reshape(lines, moved), back_);
  }
  Size dim;

 private:
  Builder& b_;
  const size_t folded_;
  Dims order_, back_;
};

// The product of all factors before each, and what reaches the factors from a cotangent of that.
Value product_before(Builder& b, Value x, Size dim) {
  return moved_by_one(b, b.emit(Op::cumprod, {x}, Attrs().add(dim)), dim, 1);
}
Value vjp_product_before(Builder& b, Value x, Value cotangent, Size dim) {
  Dims low(b.shape(x).size(), 0), high(low.size(), 0);
  low[dim] = -1, high[dim] = 1;
  Value g = b.emit(Op::pad, {cotangent, b.constant(0, b.dtype(x))}, Attrs().add(low).add(high));
  return b.mul(product_before(b, x, dim), b.emit(Op::linear_recurrence, {x, g}, Attrs().add(dim).add(1)));
}

}  // namespace

// The product of the others: y / x where no factor is 0, and where one is, only that one has a derivative.
void decompose_prod_backward(Builder& b, const Application& a, std::span<Value> results) {
  const SizeSpan dims = a.attrs.list(0);
  if (dims.empty()) {
    results[0] = a.inputs[0];
    return;
  }
  Value x = widen(b, a.inputs[1]), gy = widen(b, with_folded(b, dims, a.inputs[0], x));
  Value zero = b.constant(0, b.dtype(x)), one = b.constant(1, b.dtype(x));
  Value is_zero = b.emit(Op::eq, {x, zero});
  Value zeros = b.sum(b.convert(is_zero, b.dtype(x)), dims, true);
  Value nonzero = b.emit(Op::where, {is_zero, one, x});
  Value others = b.emit(Op::prod, {nonzero}, Attrs().add(dims).add(1));
  Value counts = b.emit(Op::eq, {zeros, b.convert(is_zero, b.dtype(x))});  // no zero among the other factors
  Value gx = b.emit(Op::where, {counts, b.mul(gy, b.div(others, nonzero)), zero});
  results[0] = b.convert(gx, b.dtype(a.inputs[1]));
}

// The product of the others as that of those before, times that of those behind: where factors are 0, this has the
// derivative that the formula above, which counts zeros, has not.
void vjp_prod_backward(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                       std::span<Value> out) {
  const SizeSpan dims = a.attrs.list(0);
  Value gy = a.inputs[0], x = a.inputs[1], c = cotangents[0];
  if (needs & 1) {
    Value others = b.emit(Op::prod_backward, {b.full(b.shape(gy), 1, b.dtype(gy)), x}, a.attrs);
    Value g = b.mul(c, others);
    out[0] = dims.empty() ? c : b.reshape(b.sum(g, dims, true), b.shape(gy));
  }
  if (!(needs & 2) || dims.empty()) return;
  const Dims shape = b.shape(x);
  const Lines lines(b, dims, shape.size());
  auto turn = [&](Value v) { return b.emit(Op::flip, {v}, Attrs().add(lines.dim)); };
  Value factors = lines.of(x), turned = turn(factors);
  Value w = b.mul(lines.of(c), lines.of(with_folded(b, dims, gy, x)));
  Value before = product_before(b, factors, lines.dim), behind = turn(product_before(b, turned, lines.dim));
  Value from_before = vjp_product_before(b, factors, b.mul(w, behind), lines.dim);
  Value from_behind = turn(vjp_product_before(b, turned, turn(b.mul(w, before)), lines.dim));
  out[1] = lines.back(b.add(from_before, from_behind), shape);
}

}  // namespace lazuli::ir
