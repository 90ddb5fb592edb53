// exp and expm1: x = n ln2 + r, exp(r) by a polynomial (tools/fit), and 2^n by its exponent bits. W. J. Cody and
// W. Waite, Software Manual for the Elementary Functions, 1980, chapter 6; the reduction with fused steps.
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

struct Reduced {
  Vec n, r;  // n is integral, of x's type
};

Reduced reduce(Vec x) {
  Vec n = round_even(x * 1.4426950408889634074);
  if (x.f64()) return {n, fma(n, -0x1.abc9e3b39803fp-56, fma(n, -0x1.62e42fefa39efp-1, x))};
  return {n, fma(n, 0x1.05c61p-29, fma(n, -0x1.62e43p-1, x))};
}

// x log2(e) = n + r, |r| <= 1/2, and 2^r by the instruction. n comes out of the low bits of a sum with 1.5 * 2^23.
Vec exp_by_instruction(Vec x) {
  constexpr double kShift = 12582912;
  constexpr int64_t kShiftBits = 0x4b400000, kOne = 127;
  Vec in = clamp(x, -104, 89);
  Vec shifted = fma(in, 1.4426950408889634074, kShift), n = shifted - kShift;
  Vec r = fma(in, 1.925963033500011e-08, fma(in, 1.4426950216293335, -n));
  // 2^n as two factors, so that overflow and gradual underflow come out right.
  Vec k = bits_of(shifted), first = ashr(k, 1), second = k - first;
  auto power = [&](Vec half) { return from_bits(shl(half, 23) + integer(half, (kOne - kShiftBits / 2) << 23)); };
  return exp2_instruction(r) * power(first) * power(second);
}

Vec exp_f32(Vec x) {
  if (x.ir->machine.nvptx) return exp_by_instruction(x);
  auto [n, r] = reduce(clamp(x, -104, 89));
  Vec p = horner(r, {0.0013942220248281956, 0.008368860930204391, 0.041666384786367416, 0.1666651964187622, 0.5});
  return scaled(fma(r * r, p, r) + 1, to_integer(n, 32));
}

// The power series: its terms fall fast enough on |r| <= ln2 / 2.
Vec exp_f64(Vec x) {
  auto [n, r] = reduce(clamp(x, -746, 710));
  Vec p = horner(r, {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0,
                     1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5});
  return scaled(fma(r * r, p, r) + 1, to_integer(n, 64));
}

}  // namespace

Vec power_of_two(Vec n, Vec like) {
  const unsigned fraction = like.f64() ? 52 : 23, bias = like.f64() ? 1023 : 127;
  return from_bits(shl(n + integer(n, bias), fraction));
}

Vec scaled(Vec p, Vec n) {
  Vec half = ashr(n, 1);
  return p * power_of_two(half, p) * power_of_two(n - half, p);
}

Vec exp_core(Vec x) {
  if (x.ir->machine.nvptx) return exp2_instruction(x * 1.4426950408889634074);
  auto [n, r] = reduce(x);
  Vec p = horner(r, {0.0013942220248281956, 0.008368860930204391, 0.041666384786367416, 0.1666651964187622, 0.5});
  return (fma(r * r, p, r) + 1) * power_of_two(to_integer(n, 32), x);
}

Vec exp(Vec x) { return x.f64() ? exp_f64(x) : exp_f32(x); }

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), at half its size so that the largest arguments do not overflow early.
Vec expm1(Vec x) {
  if (x.f64()) return f64::expm1(x);
  auto [n, r] = reduce(clamp(x, -18, 89));
  Vec p = horner(r, {0.0001994427148019895, 0.0013932723086327314, 0.008333208039402962, 0.04166648909449577,
                     0.1666666716337204, 0.5});
  Vec q = fma(r * r, p, r);
  Vec half = power_of_two(to_integer(n, 32) - integer(to_integer(n, 32), 1), x);
  Vec y = fma(half, q, half - 0.5) * 2;
  return select(eq(n, 0), select(eq(x, 0), x, q), y);
}

Vec exp_wide(Vec x) {
  auto [n, r] = reduce(x);
  Vec p = horner(r, {2.488760803348932e-05, 0.00019909243514735028, 0.0013888796428030644, 0.00833328127115227,
                     0.041666667054179866, 0.16666666786628084, 0.49999999999519573});
  return (fma(r * r, p, r) + 1) * power_of_two(to_integer(n, 64), x);
}

Vec exp2_wide(Vec x) {
  Vec n = round_even(x), r = x - n;
  Vec p = horner(r, {1.3262945954521372e-06, 1.5310020527865405e-05, 0.00015403418327666326, 0.0013333450854718114,
                     0.009618129214807614, 0.05550410940781441, 0.24022650695577047, 0.6931471805461149});
  return fma(r, p, 1) * power_of_two(to_integer(n, 64), x);
}

}  // namespace lazuli::lowering::math
