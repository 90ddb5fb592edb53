// The remainder of float64, exactly: long division of the mantissas, eleven bits of the quotient at a time.
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {
namespace {

constexpr unsigned kBits = 11;  // a mantissa has 53: so many more fit a word

struct Parts {
  Vec exponent, mantissa;  // 2^(exponent - 1075) mantissa
};
Parts parts(Vec x) {
  Vec i = bits_of(abs(x)), e = lshr(i, 52), m = i & integer(i, 0xfffffffffffff);
  Vec subnormal = eq(e, 0);
  return {select(subnormal, 1, e), select(subnormal, m, m | integer(m, int64_t{1} << 52))};
}

Vec remainder(Vec a, Vec b) { return a.with(a.b().CreateURem(a.v, b.v)); }

}  // namespace

Vec fmod(Vec a, Vec b) {
  llvm::IRBuilder<>& builder = a.b();
  // What has no remainder is divided by 1 and thrown away.
  Vec ordered = lt(abs(a), INFINITY) & gt(abs(b), 0);
  Vec divides = ordered & lt(abs(b), INFINITY);
  Parts x = parts(select(divides, a, 1)), y = parts(select(divides, b, 1));
  Vec smaller = lt(x.exponent, y.exponent);  // then |a| < |b|
  Vec first = remainder(x.mantissa, y.mantissa);
  Vec distance = select(smaller, 0, x.exponent - y.exponent);

  llvm::BasicBlock* before = builder.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(builder.getContext(), "fmod", before->getParent());
  auto* done = llvm::BasicBlock::Create(builder.getContext(), "fmod.end", before->getParent());
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  llvm::PHINode* rest_phi = builder.CreatePHI(first.v->getType(), 2);
  llvm::PHINode* left_phi = builder.CreatePHI(first.v->getType(), 2);
  rest_phi->addIncoming(first.v, before);
  left_phi->addIncoming(distance.v, before);
  Vec rest = first.with(rest_phi), left = first.with(left_phi);
  Vec step = select(lt(left, kBits), left, integer(left, kBits));
  Vec next = remainder(rest.with(builder.CreateShl(rest.v, step.v)), y.mantissa), still = left - step;
  rest_phi->addIncoming(next.v, loop);
  left_phi->addIncoming(still.v, loop);
  builder.CreateCondBr(any(gt(still, 0)), loop, done);
  builder.SetInsertPoint(done);

  Vec r = scaled(to_floating(next, a.element()), y.exponent - integer(y.exponent, 1075));
  r = copysign(select(divides, select(smaller, abs(a), r), abs(a)), a);
  return select(ordered, r, NAN);
}

}  // namespace lazuli::lowering::math::f64
