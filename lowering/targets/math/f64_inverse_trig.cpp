// asin, acos, atan and atan2 of float64.
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {
namespace {

constexpr double kHalfPi = 1.57079632679489655800e+00, kHalfPiLow = 6.12323399573676603587e-17;

// (asin(x) - x) / x at z = x^2, for |x| <= 1/2.
Vec asin_ratio(Vec z) {
  Vec p = z * horner(z, {3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
                         2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01});
  Vec q = horner(z, {7.70381505559019352791e-02, -6.88283971605453293030e-01, 2.02094576023350569471e+00,
                     -2.40339491173441421878e+00, 1.0});
  return p / q;
}

// Half of acos(a) for a > 1/2.
Vec half_acos(Vec a) {
  Vec z = fma(a, -0.5, 0.5), s = sqrt(z);
  return fma(s, asin_ratio(z), s);
}

}  // namespace

Vec asin(Vec x) {
  Vec a = abs(x);
  Vec small = fma(x, asin_ratio(x * x), x);
  Vec large = kHalfPi - (half_acos(a) * 2 - kHalfPiLow);
  return select(gt(a, 0.5), copysign(large, x), small);
}

Vec acos(Vec x) {
  Vec a = abs(x), h = half_acos(a);
  Vec small = kHalfPi - (x - (kHalfPiLow - x * asin_ratio(x * x)));
  Vec negative = (kHalfPi - (h - kHalfPiLow)) * 2;
  return select(gt(a, 0.5), select(lt(x, 0), negative, h * 2), small);
}

// atan(x) = atan(c) + atan((x - c) / (1 + c x)) for one of four c.
Vec atan(Vec x) {
  Vec a = abs(x);
  Vec over0 = ge(a, 0.4375), over1 = ge(a, 0.6875), over2 = ge(a, 1.1875), over3 = ge(a, 2.4375);
  auto choose = [&](Vec none, Vec c0, Vec c1, Vec c2, Vec c3) {
    return select(over3, c3, select(over2, c2, select(over1, c1, select(over0, c0, none))));
  };
  auto constant = [&](double none, double c0, double c1, double c2, double c3) {
    return choose(number(a, none), number(a, c0), number(a, c1), number(a, c2), number(a, c3));
  };
  Vec one = number(a, 1);
  Vec numerator = choose(a, a + a - 1, a - 1, a - 1.5, -one);
  Vec denominator = choose(one, a + 2, a + 1, fma(a, 1.5, one), a);
  Vec t = numerator / denominator, z = t * t, w = z * z;
  Vec s1 = z * horner(w, {1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02,
                          9.09088713343650656196e-02, 1.42857142725034663711e-01, 3.33333333333329318027e-01});
  Vec s2 = w * horner(w, {-3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02,
                          -1.11111104054623557880e-01, -1.99999999998764832476e-01});
  Vec high = constant(0, 4.63647609000806093515e-01, 7.85398163397448278999e-01, 9.82793723247329054082e-01, kHalfPi);
  Vec low = constant(0, 2.26987774529616870924e-17, 3.06161699786838301793e-17, 1.39033110312309984516e-17, kHalfPiLow);
  return copysign(high - ((t * (s1 + s2) - low) - t), x);
}

Vec atan2(Vec y, Vec x) {
  constexpr double kPi = 3.14159265358979311600e+00, kPiLow = 1.2246467991473531772e-16;
  Vec ay = abs(y), ax = abs(x);
  Vec same = (eq(ay, INFINITY) & eq(ax, INFINITY)) | (eq(ay, 0) & eq(ax, 0));
  Vec a = atan(select(same, select(eq(ay, 0), 0, number(ay, 1)), ay) / select(same, 1, ax));
  Vec left = lt(bits_of(x), 0);  // -0 lies to the left
  return copysign(select(left, kPi - (a - kPiLow), a), y);
}

}  // namespace lazuli::lowering::math::f64
