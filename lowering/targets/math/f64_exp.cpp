// expm1 and the hyperbolic functions of float64.
#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {

// x = n ln2 + r; exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1), at half its size so that the largest arguments do not
// overflow early. exp(r) - 1 by its power series.
Vec expm1(Vec x) {
  Vec in = clamp(x, -40, 710);
  Vec n = round_even(in * 1.4426950408889634074);
  Vec r = fma(n, -0x1.abc9e3b39803fp-56, fma(n, -0x1.62e42fefa39efp-1, in));
  Vec p = horner(r, {1 / 87178291200.0, 1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0, 1 / 362880.0,
                     1 / 40320.0, 1 / 5040.0, 1 / 720.0, 1 / 120.0, 1 / 24.0, 1 / 6.0, 0.5});
  Vec q = fma(r * r, p, r);
  Vec k = to_integer(n, 64);
  Vec half = power_of_two(k - integer(k, 1), x);
  Vec y = fma(half, q, half - 0.5) * 2;
  return select(eq(n, 0), select(eq(x, 0), x, q), y);
}

namespace {

// exp(a) / 2 for large a, where exp(a) may overflow before its half does.
Vec half_exp(Vec a) {
  Vec e = exp(a * 0.5);
  return e * 0.5 * e;
}

constexpr double kLarge = 700;

}  // namespace

Vec sinh(Vec x) {
  Vec a = abs(x), t = expm1(min_or_second(number(a, kLarge), a));
  Vec y = select(lt(a, 1), (t + t) - t * t / (t + 1), t + t / (t + 1)) * 0.5;
  return copysign(select(gt(a, kLarge), half_exp(a), y), x);
}

Vec cosh(Vec x) {
  Vec a = abs(x), e = exp(min_or_second(number(a, kLarge), a));
  return select(gt(a, kLarge), half_exp(a), (e + 1 / e) * 0.5);
}

Vec tanh(Vec x) {
  Vec a = clamp(abs(x), 0, 22);
  Vec t = expm1(a + a);
  return copysign(select(lt(a, 0.5493061443340549), t / (t + 2), 1 - 2 / (t + 2)), x);
}

}  // namespace lazuli::lowering::math::f64
