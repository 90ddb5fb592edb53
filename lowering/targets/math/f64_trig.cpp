// sin, cos and tan of float64: x = q pi/2 + r with r in two parts. Reduction by fused steps, of which the first is
// exact; from 2^29 on by 192 bits of 2/pi times the mantissa (M. Payne and R. Hanek, SIGNUM Newsletter 18, 1983).
#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include <array>
#include <cmath>

#include "lowering/targets/math/f64.h"
#include "lowering/targets/math/two_over_pi.h"

namespace lazuli::lowering::math::f64 {
namespace {

constexpr double kLargest = 0x1p29;
constexpr double kHalfPiParts[3] = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
constexpr int kLimbs = 6;

struct Angle {
  Vec high, low, q;  // q: int64, only its two low bits count
};

llvm::GlobalVariable* digits(llvm::Module& module) {
  constexpr const char* name = "two_over_pi";
  if (auto* g = module.getNamedGlobal(name)) return g;
  llvm::Constant* data = llvm::ConstantDataArray::get(module.getContext(), llvm::ArrayRef(kTwoOverPiDigits));
  return new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
}

// A word of the digits, as int64.
Vec digit(llvm::Value* base, Vec index) {
  llvm::IRBuilder<>& b = index.b();
  llvm::Value* address = b.CreateGEP(b.getInt32Ty(), base, index.v);
  llvm::Type* type = index.ir->of(b.getInt32Ty());
  llvm::Value* word = nullptr;
  if (index.ir->lanes == 1)
    word = b.CreateLoad(type, address);
  else
    word = b.CreateMaskedGather(type, address, llvm::Align(4));
  return resize(index.with(word), 64, false);
}

Vec low_half(Vec x) { return x & integer(x, 0xffffffff); }

// The limbs, lowest first, of 2/pi from the digit on that, times x's unit in the last place, is worth 2.
std::array<Vec, kLimbs> window(Vec exponent) {
  llvm::Value* base = digits(*exponent.b().GetInsertBlock()->getModule());
  constexpr int64_t kZeros = 64, kUnit = 1075;
  Vec first = exponent + integer(exponent, kZeros - 2 - kUnit);
  // Other lanes hold anything, and must not look outside.
  constexpr int64_t kWords = std::size(kTwoOverPiDigits);
  first = select(ult(first, integer(first, 32 * (kWords - kLimbs))), first, 0);
  Vec word = lshr(first, 5), shift = first & integer(first, 31);
  std::array<Vec, kLimbs> limbs;
  Vec upper = digit(base, word);
  for (int k = kLimbs; k-- > 0;) {
    word = word + integer(word, 1);
    Vec lower = digit(base, word);
    Vec both = shl(upper, 32) | lower;
    limbs[static_cast<size_t>(k)] = lshr(both.with(both.b().CreateShl(both.v, shift.v)), 32);
    upper = lower;
  }
  return limbs;
}

// The product with a mantissa, modulo 2^192.
std::array<Vec, kLimbs> times(const std::array<Vec, kLimbs>& limbs, Vec mantissa) {
  Vec m0 = low_half(mantissa), m1 = lshr(mantissa, 32), carry = number(mantissa, 0);
  std::array<Vec, kLimbs> out;
  std::array<Vec, kLimbs> p0, p1;
  for (size_t k = 0; k < kLimbs; ++k) {
    p0[k] = limbs[k] * m0;
    p1[k] = limbs[k] * m1;
    Vec sum = carry + low_half(p0[k]);
    if (k > 0) sum = sum + lshr(p0[k - 1], 32) + low_half(p1[k - 1]);
    if (k > 1) sum = sum + lshr(p1[k - 2], 32);
    out[k] = low_half(sum);
    carry = lshr(sum, 32);
  }
  return out;
}

// For 2^29 <= |x| < infinity.
Angle reduce_huge(Vec x) {
  Vec i = bits_of(x);
  Vec mantissa = (i & integer(i, 0xfffffffffffff)) | integer(i, int64_t{1} << 52);
  const auto p = times(window(lshr(i, 52) & integer(i, 2047)), mantissa);
  // Two bits of whole quarters, then the fraction, to be taken between -1/2 and 1/2.
  Vec q = lshr(p[5], 30);
  auto fraction = [&](size_t k) { return low_half(shl(p[k], 2) | lshr(p[k - 1], 30)); };
  Vec top = fraction(5);
  Vec over = ge(top, 0x1p31);
  q = select(over, q + integer(q, 1), q);
  top = select(over, top - integer(top, int64_t{1} << 32), top);
  auto scaled_to = [&](Vec limb, double unit) { return to_floating(limb, x.element()) * unit; };
  Vec a = scaled_to(top, 0x1p-32), b = scaled_to(fraction(4), 0x1p-64);
  Vec sum = a + b;
  Vec rest = ((a - sum) + b) + (scaled_to(fraction(3), 0x1p-96) + scaled_to(fraction(2), 0x1p-128));
  Vec high = sum + rest, low = (sum - high) + rest;
  Vec r = high * kHalfPiParts[0];
  Vec r_low = fma(high, kHalfPiParts[0], -r) + fma(high, kHalfPiParts[1], low * kHalfPiParts[0]);
  Vec negative = lt(i, 0);
  return {select(negative, -r, r), select(negative, -r_low, r_low), select(negative, -q, q)};
}

// `usual`, but for the huge ones; those take the long way only where there are any.
Angle when_huge(Vec huge, Angle usual, Vec x) {
  Vec q = usual.q;
  auto [high, low] = when_any(huge, std::pair{usual.high, usual.low}, [&] {
    Angle a = reduce_huge(x);
    return std::pair{a.high, a.low};
  });
  q = when_any(huge, q, [&] { return reduce_huge(x).q; });
  return {high, low, q};
}

Angle reduce(Vec x) {
  Vec n = round_even(x * 0.63661977236758134308);
  Vec first = fma(n, -kHalfPiParts[0], x), w = n * kHalfPiParts[1];
  Vec high = first - w, back = high - first;
  Vec lost = (first - (high - back)) - (w + back);
  Vec low = lost - fma(n, kHalfPiParts[2], fma(n, kHalfPiParts[1], -w));
  Vec q = to_integer(n, 64);
  Vec huge = ge(abs(x), kLargest) & lt(abs(x), INFINITY);
  Angle usual{high, low, q};
  return when_huge(huge, usual, x);
}

Vec sine_of(const Angle& a) {
  Vec x = a.high, z = x * x, w = z * z, v = z * x;
  Vec s = fma(z, 2.75573137070700676789e-06, number(z, -1.98412698298579493134e-04));
  s = fma(z, s, 8.33333333332248946124e-03) +
      z * w * fma(z, 1.58969099521155010221e-10, number(z, -2.50507602534068634195e-08));
  return x - ((z * (a.low * 0.5 - v * s) - a.low) - v * -1.66666666666666324348e-01);
}

Vec cosine_of(const Angle& a) {
  Vec x = a.high, z = x * x, w = z * z;
  Vec r = z * horner(z, {2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02}) +
          w * w * horner(z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07});
  Vec half = z * 0.5, one = 1 - half;
  return one + (((1 - one) - half) + (z * r - x * a.low));
}

// sin(x + shift pi/2)
Vec sine(Vec x, int shift) {
  Angle a = reduce(x);
  Vec q = a.q + integer(a.q, shift);
  Vec y = select(ne(q & integer(q, 1), 0), cosine_of(a), sine_of(a));
  return from_bits(bits_of(y) ^ shl(q & integer(q, 2), 62));
}

}  // namespace

Vec sin(Vec x) { return select(eq(x, 0), x, sine(x, 0)); }
Vec cos(Vec x) { return sine(x, 1); }

Vec tan(Vec x) {
  Angle a = reduce(x);
  Vec odd = ne(a.q & integer(a.q, 1), 0), s = sine_of(a), c = cosine_of(a);
  return select(eq(x, 0), x, select(odd, -c, s) / select(odd, s, c));
}

}  // namespace lazuli::lowering::math::f64
