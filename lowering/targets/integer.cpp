// Integer division, powers and shifts.
#include "lowering/targets/primitives.h"

namespace lazuli::lowering {
namespace {

// A quotient of n-bit integers rounds wrongly only if it is within 2^-n of an integer, relatively, and is none: so
// float32 divides 16-bit integers exactly, and float64 divides 32-bit ones.
Vec divide_through_floating(Vec a, Vec b, bool is_signed) {
  llvm::Type* element = a.bits() == 32 ? a.b().getDoubleTy() : a.b().getFloatTy();
  Vec q = to_floating(a, element, is_signed) / to_floating(b, element, is_signed);
  return resize(to_integer(q, 32), a.bits(), true);
}

Vec is_zero(Vec a) { return eq(a, 0); }

// Lanes where a remainder with the dividend's sign needs one more divisor to have the divisor's sign.
Vec signs_differ(Vec remainder, Vec b) { return ne(remainder, 0) & lt(remainder ^ b, 0); }

}  // namespace

Vec integer_divide(Vec a, Vec b, bool is_signed) {
  // The smallest integer by -1 overflows, and traps where division is an instruction.
  Vec minus_one = is_signed ? eq(b, -1) : a.with(llvm::ConstantInt::getFalse(is_zero(b).v->getType()));
  Vec divisor = select(is_zero(b) | minus_one, 1, b);
  Vec q = a.bits() == 64 ? a.with(a.b().CreateSDiv(a.v, divisor.v)) : divide_through_floating(a, divisor, is_signed);
  return select(is_zero(b), 0, select(minus_one, -a, q));
}

Vec integer_remainder(Vec a, Vec b, bool is_signed) {
  return select(is_zero(b), 0, a - integer_divide(a, b, is_signed) * b);
}

Vec integer_floor_modulo(Vec a, Vec b, bool is_signed) {
  Vec m = integer_remainder(a, b, is_signed);
  return is_signed ? select(signs_differ(m, b), m + b, m) : m;
}

Vec integer_floor_divide(Vec a, Vec b, bool is_signed) {
  Vec q = integer_divide(a, b, is_signed);
  if (!is_signed) return q;
  Vec m = select(is_zero(b), 0, a - q * b);
  return select(signs_differ(m, b), q - 1, q);
}

// Binary powering, until no lane has exponent bits left.
Vec integer_power(Vec base, Vec exponent, bool is_signed) {
  llvm::IRBuilder<>& b = base.b();
  Vec negative = is_signed ? lt(exponent, 0) : base.with(llvm::ConstantInt::getFalse(is_zero(base).v->getType()));
  Vec start = select(negative, 0, exponent);
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "power", before->getParent());
  auto* done = llvm::BasicBlock::Create(b.getContext(), "power.end", before->getParent());
  b.CreateBr(loop);

  b.SetInsertPoint(loop);
  auto phi = [&](Vec initial) {
    llvm::PHINode* p = b.CreatePHI(initial.v->getType(), 2);
    p->addIncoming(initial.v, before);
    return p;
  };
  llvm::PHINode *result = phi(number(base, 1)), *power = phi(base), *rest = phi(start);
  Vec r = base.with(result), p = base.with(power), e = base.with(rest);
  Vec odd = ne(e & integer(e, 1), 0);
  Vec r_next = select(odd, r * p, r), e_next = lshr(e, 1), p_next = p * p;
  result->addIncoming(r_next.v, loop);
  power->addIncoming(p_next.v, loop);
  rest->addIncoming(e_next.v, loop);
  b.CreateCondBr(any(ne(e_next, 0)), loop, done);

  b.SetInsertPoint(done);
  // Only 1 and -1 have reciprocals among the integers.
  Vec sign = select(ne(exponent & integer(exponent, 1), 0), number(base, -1), 1);
  Vec reciprocal = select(eq(base, 1), 1, select(eq(base, -1), sign, 0));
  return is_signed ? select(negative, reciprocal, r_next) : r_next;
}

Vec integer_shift_left(Vec a, Vec n) {
  Vec width = integer(n, a.bits());
  Vec count = n & integer(n, a.bits() - 1);
  return select(ult(n, width), a.with(a.b().CreateShl(a.v, count.v)), 0);
}

Vec integer_shift_right(Vec a, Vec n, bool is_signed) {
  Vec in_range = ult(n, integer(n, a.bits()));
  if (is_signed) return a.with(a.b().CreateAShr(a.v, select(in_range, n, a.bits() - 1.0).v));
  Vec count = n & integer(n, a.bits() - 1);
  return select(in_range, a.with(a.b().CreateLShr(a.v, count.v)), 0);
}

}  // namespace lazuli::lowering
