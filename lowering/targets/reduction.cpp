#include "lowering/targets/reduction.h"

#include <cmath>

#include "lowering/targets/primitives.h"

namespace lazuli::lowering {
namespace {
using ir::DType;
using llvm::Value;

Value* extreme(VectorIR& ir, DType type, bool largest) {
  llvm::Type* t = ir.type(type);
  if (ir::is_floating(type)) return llvm::ConstantFP::getInfinity(t, !largest);
  const unsigned bits = t->getScalarSizeInBits();
  const bool is_signed = ir::is_signed(type);
  llvm::APInt x = largest ? (is_signed ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits))
                          : (is_signed ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getMinValue(bits));
  return llvm::ConstantInt::get(t, x);
}

Value* neutral(VectorIR& ir, Reduce reduce, DType type) {
  switch (reduce) {
    case Reduce::Max:
    case Reduce::ArgMax:
      return extreme(ir, type, false);
    case Reduce::Min:
    case Reduce::ArgMin:
      return extreme(ir, type, true);
    case Reduce::Prod:
    case Reduce::All:
      return emit_literal(ir, 1, type).v;
    default:
      return emit_literal(ir, 0, type).v;
  }
}

Vec combine(Reduce reduce, DType type, Vec a, Vec b) {
  constexpr ir::Prim prims[] = {ir::Prim::add,     ir::Prim::mul,    ir::Prim::maximum,
                                ir::Prim::minimum, ir::Prim::bit_or, ir::Prim::bit_and};
  const Vec pair[2] = {a, b};
  // Which of two equal zeros is kept depends on the order of a reduction anyway.
  if (a.ir->machine.nvptx && type == DType::F32 && reduce == Reduce::Max) return max_instruction(a, b);
  if (a.ir->machine.nvptx && type == DType::F32 && reduce == Reduce::Min) return min_instruction(a, b);
  return emit_primitive(prims[static_cast<int>(reduce)], type, type, pair);
}

// Lanes where `a` beats `b` whatever their positions. NaN beats every number, and nothing beats NaN.
Vec beats(Reduce reduce, DType type, Vec a, Vec b) {
  const Vec pair[2] = {reduce == Reduce::ArgMax ? b : a, reduce == Reduce::ArgMax ? a : b};
  Vec better = emit_primitive(ir::Prim::lt, type, DType::Bool, pair);
  if (!ir::is_floating(type)) return better;
  return better | (is_nan(a) & ~is_nan(b));
}

}  // namespace

Accumulator start_reduction(VectorIR& ir, Reduce reduce, DType type) {
  Accumulator a{neutral(ir, reduce, type), nullptr};
  if (is_arg(reduce)) a.position = llvm::ConstantInt::getAllOnesValue(ir.of(ir.b.getInt64Ty()));
  return a;
}

Accumulator reduction_step(VectorIR& ir, Reduce reduce, DType type, Accumulator a, Vec x, Value* position,
                           Value* active) {
  Vec value{&ir, a.value};
  if (is_arg(reduce)) {
    // Positions grow within a lane, so an equal later value never wins.
    Vec wins = beats(reduce, type, x, value) | lt(Vec{&ir, a.position}, 0);
    if (active) wins = wins & wins.with(active);
    return {select(wins, x, value).v, select(wins, x.with(position), x.with(a.position)).v};
  }
  Vec next = combine(reduce, type, value, x);
  return {active ? select(x.with(active), next, value).v : next.v, nullptr};
}

Accumulator join(VectorIR& ir, Reduce reduce, DType type, Accumulator a, Accumulator b) {
  Vec x{&ir, a.value}, y{&ir, b.value};
  if (!is_arg(reduce)) return {combine(reduce, type, x, y).v, nullptr};
  Vec p = x.with(a.position), q = x.with(b.position);
  // The earlier one wins where neither beats the other; an accumulator that has seen nothing never wins.
  Vec tie = ~beats(reduce, type, x, y) & ult(q, p);
  Vec second = (beats(reduce, type, y, x) | tie | lt(p, 0)) & ge(q, 0);
  return {select(second, y, x).v, select(second, q, p).v};
}

Accumulator join_lanes(VectorIR& ir, Reduce reduce, DType type, Accumulator a) {
  auto half = [&](Value* v, unsigned lanes, bool upper) -> Value* {
    if (!v) return nullptr;
    llvm::SmallVector<int, 32> lane;
    for (unsigned i = 0; i < lanes; ++i) lane.push_back(static_cast<int>(i + (upper ? lanes : 0)));
    return ir.b.CreateShuffleVector(v, lane);
  };
  for (unsigned lanes = ir.lanes / 2; lanes > 0; lanes /= 2) {
    VectorIR narrower(ir.b, lanes);
    Accumulator lower{half(a.value, lanes, false), half(a.position, lanes, false)};
    Accumulator upper{half(a.value, lanes, true), half(a.position, lanes, true)};
    if (lanes > 1) {
      a = join(narrower, reduce, type, lower, upper);
      continue;
    }
    auto first = [&](Value* v) { return v ? ir.b.CreateExtractElement(v, uint64_t{0}) : nullptr; };
    a = join(narrower, reduce, type, {first(lower.value), first(lower.position)},
             {first(upper.value), first(upper.position)});
  }
  return a;
}

Value* reduction_result(VectorIR& ir, Reduce reduce, Accumulator a) {
  if (!is_arg(reduce)) return a.value;
  Vec p{&ir, a.position};
  return select(lt(p, 0), 0, p).v;
}

}  // namespace lazuli::lowering
