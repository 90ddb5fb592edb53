// Logarithms and powers of float64: x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log(1 + f) as a series in
// s = f / (2 + f).
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {
namespace {

constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;  // High has 33 bits

struct Split {
  Vec e, f;
};

Split split(Vec x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  Vec tiny = lt(x, 0x1p-1022);
  Vec i = bits_of(select(tiny, x * 0x1p54, x));
  i = i - integer(i, kSqrtHalf);
  Vec m = from_bits((i & integer(i, 0xfffffffffffff)) + integer(i, kSqrtHalf));
  Vec e = to_floating(ashr(i, 52), x.element());
  return {select(tiny, e - 54, e), m - 1};
}

// log(1 + f) = f - hfsq + rest, hfsq = f^2 / 2.
struct Series {
  Vec hfsq, rest;
};
Series series(Vec f) {
  Vec s = f / (f + 2), z = s * s, w = z * z;
  Vec t1 = w * horner(w, {1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01});
  Vec t2 = z * horner(w, {1.479819860511658591e-01, 1.818357216161805012e-01, 2.857142874366239149e-01,
                          6.666666666666735130e-01});
  Vec hfsq = f * f * 0.5;
  return {hfsq, s * (hfsq + (t1 + t2))};
}

// Zero, negative numbers, infinity and NaN; `x` is what the logarithm is taken of.
Vec with_edges(Vec x, Vec y) {
  y = select(gt(x, 0), y, select(eq(x, 0), -INFINITY, number(x, NAN)));
  return select(eq(x, INFINITY), x, y);
}

}  // namespace

Vec log(Vec x) {
  auto [e, f] = split(x);
  auto [hfsq, rest] = series(f);
  return with_edges(x, fma(e, kLn2High, f - (hfsq - fma(e, kLn2Low, rest))));
}

Vec log1p(Vec x) {
  Vec u = x + 1, back = u - x;
  Vec lost = (x - (u - back)) + (1 - back);  // u + lost = 1 + x exactly (Knuth's TwoSum)
  auto [e, f] = split(u);
  auto [hfsq, rest] = series(f);
  Vec low = fma(e, kLn2Low, lost / u) + rest;
  Vec y = with_edges(u, fma(e, kLn2High, f - (hfsq - low)));
  return select(eq(x, 0), x, select(eq(x, INFINITY), x, y));
}

Vec log2(Vec x) {
  constexpr double kHigh = 1.44269504072144627571e+00, kLow = 1.67517131648865118353e-10;  // of 1 / ln2
  auto [e, f] = split(x);
  auto [hfsq, rest] = series(f);
  Vec high = f - hfsq;
  high = from_bits(bits_of(high) & integer(bits_of(high), ~int64_t{0xffffffff}));
  Vec low = ((f - high) - hfsq) + rest;
  Vec product = high * kHigh, small = fma(low + high, kLow, low * kHigh);
  Vec sum = e + product;
  return with_edges(x, (small + ((e - sum) + product)) + sum);
}

namespace {

struct Pair {
  Vec high, low;
};

// log(x) to about 2^-68 for positive finite x: 2 atanh(s) with s and its cube in two parts.
Pair log_pair(Vec x) {
  auto [e, f] = split(x);
  Vec d = f + 2, d_low = f - (d - 2);
  Vec s = f / d, s_low = (fma(-s, d, f) - s * d_low) / d;
  Vec z = s * s, z_low = fma(s, s, -z) + s * s_low * 2;
  Vec c = z * s, c_low = fma(z, s, -c) + (z * s_low + z_low * s);
  constexpr double kThird = 0.66666666666666662966, kThirdLow = 3.7007434154171886e-17;  // 2/3
  Vec t = c * kThird, t_low = fma(c, kThird, -t) + fma(c_low, kThird, c * kThirdLow);
  Vec p = horner(z, {2 / 27.0, 2 / 25.0, 2 / 23.0, 2 / 21.0, 2 / 19.0, 2 / 17.0, 2 / 15.0, 2 / 13.0, 2 / 11.0, 2 / 9.0,
                     2 / 7.0, 2 / 5.0});
  Vec low = c * z * p + t_low + s_low * 2;
  Vec a = s * 2, h = a + t;
  low = ((a - h) + t) + low;
  Vec b = e * kLn2High, sum = b + h, part = sum - b;
  low = ((b - (sum - part)) + (h - part)) + fma(e, kLn2Low, low);
  Vec high = sum + low;
  return {high, (sum - high) + low};
}

// exp(high + low); what is out of range overflows or vanishes.
Vec exp_pair(Vec high, Vec low) {
  Vec x = clamp(high, -800, 800);
  Vec n = round_even(x * 1.4426950408889634074);
  Vec r = fma(n, -0x1.abc9e3b39803fp-56, fma(n, -0x1.62e42fefa39efp-1, x)) + low;
  Vec p = horner(r, {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0, 1 / 40320.0,
                     1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5});
  return scaled(fma(r * r, p, r) + 1, to_integer(n, 64));
}

}  // namespace

// exp(y log|x|), with the edges of C's Annex F.
Vec pow(Vec x, Vec y) {
  Vec a = abs(x);
  Vec usual = gt(a, 0) & lt(a, INFINITY);
  auto [l, l_low] = log_pair(select(usual, a, 1));
  l = select(usual, l, select(eq(a, 0), -INFINITY, a));
  Vec high = y * l;
  Vec low = select(usual & lt(abs(high), 1000), fma(y, l, -high) + y * l_low, 0);
  Vec r = exp_pair(high, low);
  Vec half = y * 0.5;
  Vec integral = eq(trunc(y), y), odd = integral & ne(trunc(half), half);
  r = select(odd, copysign(r, x), r);
  Vec undefined = lt(x, 0) & gt(a, 0) & lt(a, INFINITY) & ~integral;
  r = select(undefined, NAN, r);
  // |x| = 1 with infinite y, and anything to the power 0.
  Vec to_infinity = eq(a, 1) & eq(abs(y), INFINITY);
  return select(eq(x, 1) | eq(y, 0) | to_infinity, 1, r);
}

}  // namespace lazuli::lowering::math::f64
