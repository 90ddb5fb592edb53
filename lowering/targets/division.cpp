// Remainders and floor division of floating types.
#include <cmath>

#include "lowering/targets/math/f64.h"
#include "lowering/targets/primitives.h"

namespace lazuli::lowering {
namespace {

// Long division in float64 for float32 operands, 24 bits of the quotient at a time, each step exact: the quotient's
// low bits are cleared so that quotient times divisor fits 53 bits, and what is left of the dividend again fits 24.
Vec fmod_f32(Vec a, Vec b) {
  llvm::IRBuilder<>& builder = a.b();
  Vec y = abs(to_f64(b)), x = abs(to_f64(a));
  llvm::BasicBlock* before = builder.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(builder.getContext(), "fmod", before->getParent());
  auto* done = llvm::BasicBlock::Create(builder.getContext(), "fmod.end", before->getParent());
  builder.CreateBr(loop);

  builder.SetInsertPoint(loop);
  llvm::PHINode* rest = builder.CreatePHI(x.v->getType(), 2);
  rest->addIncoming(x.v, before);
  Vec r = a.with(rest);
  Vec quotient = trunc(r / y);
  Vec cut = from_bits(bits_of(quotient) & integer(bits_of(quotient), ~((int64_t{1} << 29) - 1)));
  Vec next = fma(-cut, y, r);
  // An infinite or NaN dividend, or a zero or NaN divisor, has no remainder; an infinite divisor leaves the dividend.
  Vec ordered = lt(x, INFINITY) & gt(y, 0);
  Vec finite = ordered & lt(y, INFINITY);
  next = select(finite, next, r);
  rest->addIncoming(next.v, loop);
  builder.CreateCondBr(any(finite & ge(next, y)), loop, done);

  builder.SetInsertPoint(done);
  return select(ordered, copysign(to_f32(next), a), number(a, NAN));
}

}  // namespace

Vec floating_fmod(Vec a, Vec b) { return a.f64() ? math::f64::fmod(a, b) : fmod_f32(a, b); }

Vec floating_modulo(Vec a, Vec b) {
  Vec m = floating_fmod(a, b);
  Vec differ = lt(b, 0) ^ lt(m, 0);
  return select(ne(m, 0) & differ, m + b, m);
}

// Torch's c10::div_floor_floating.
Vec floating_floor_divide(Vec a, Vec b) {
  Vec m = floating_fmod(a, b), ratio = a / b;
  Vec q = (a - m) / b;
  q = select(ne(m, 0) & (lt(b, 0) ^ lt(m, 0)), q - 1, q);
  Vec f = floor(q);
  f = select(gt(q - f, 0.5), f + 1, f);
  Vec result = select(eq(q, 0), copysign(number(a, 0), ratio), f);
  return select(eq(b, 0), ratio, result);
}

}  // namespace lazuli::lowering
