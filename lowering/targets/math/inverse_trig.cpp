// asin, acos, atan and atan2 of float32, computed in float64: the arguments are reduced by the half-angle and addition
// theorems (Cody and Waite, chapters 10 and 11), then polynomials (tools/fit).
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

constexpr double kPi = 3.14159265358979323846;

// asin(x) for |x| <= 1/2, z = x^2.
Vec asin_small(Vec x, Vec z) {
  Vec p = horner(
      z, {0.03195835816114914, -0.002857310645355395, 0.01863001256096382, 0.016477813036887657, 0.022471300553449206,
          0.030375233395728844, 0.04464311246284146, 0.07499999525607315, 0.16666666669695732});
  return fma(x * z, p, x);
}

struct ArcSine {
  Vec large, a;  // |x| > 1/2: a = 2 asin(sqrt((1 - |x|) / 2)) = acos(|x|); else a = asin(|x|)
};
ArcSine arc_sine(Vec x) {
  Vec large = gt(x, 0.5);
  Vec z = select(large, fma(x, -0.5, 0.5), x * x);
  Vec root = select(large, sqrt(z), x);
  Vec a = asin_small(root, z);
  return {large, select(large, a + a, a)};
}

Vec asin_wide(Vec x) {
  auto [large, a] = arc_sine(abs(x));
  return copysign(select(large, kPi / 2 - a, a), x);
}

Vec acos_wide(Vec x) {
  auto [large, a] = arc_sine(abs(x));
  Vec negative = lt(x, 0);
  return select(large, select(negative, kPi - a, a), kPi / 2 - select(negative, -a, a));
}

// atan(y / x) for y, x >= 0, in [0, pi/2].
Vec atan_ratio(Vec y, Vec x) {
  Vec steep = gt(y, x * 2.414213562373095), middle = gt(y, x * 0.41421356237309503);
  Vec numerator = select(steep, -x, select(middle, y - x, y));
  Vec denominator = select(steep, y, select(middle, y + x, x));
  Vec t = numerator / denominator, z = t * t;
  Vec base = select(steep, kPi / 2, select(middle, number(x, kPi / 4), 0));
  Vec p = horner(z, {-0.0379560748781396, 0.06993111085526439, -0.0899728155976217, 0.11104054486645445,
                     -0.14285426556135117, 0.19999994404558308, -0.3333333329642094});
  return base + fma(t * z, p, t);
}

Vec atan_wide(Vec x) { return copysign(atan_ratio(abs(x), number(x, 1)), x); }

Vec atan2_wide(Vec y, Vec x) {
  Vec ay = abs(y), ax = abs(x);
  Vec both_infinite = eq(ay, INFINITY) & eq(ax, INFINITY);
  Vec a = atan_ratio(select(both_infinite, 1, ay), select(both_infinite, 1, ax));
  a = select(eq(ay, 0) & eq(ax, 0), 0, a);
  Vec left = lt(bits_of(x), 0);  // -0 lies to the left
  return copysign(select(left, kPi - a, a), y);
}

}  // namespace

Vec asin(Vec x) { return x.f64() ? f64::asin(x) : in_f64(x, asin_wide); }
Vec acos(Vec x) { return x.f64() ? f64::acos(x) : in_f64(x, acos_wide); }
Vec atan(Vec x) { return x.f64() ? f64::atan(x) : in_f64(x, atan_wide); }
Vec atan2(Vec y, Vec x) {
  if (x.f64()) return f64::atan2(y, x);
  return to_f32(atan2_wide(to_f64(y), to_f64(x)));
}

}  // namespace lazuli::lowering::math
