// pow of float32: 2^(y log2|x|) in float64, with the edges of C's Annex F.
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

Vec pow_wide(Vec x, Vec y) {
  Vec a = abs(x);
  Vec logarithm = select(eq(a, 0), -INFINITY, select(lt(a, INFINITY), log2_wide(a), a));
  // Far beyond what float32 holds, and within what exp2_wide takes.
  Vec r = exp2_wide(clamp(y * logarithm, -300, 300));
  Vec half = y * 0.5;
  Vec integral = eq(trunc(y), y), odd = integral & ne(trunc(half), half);
  r = select(odd, copysign(r, x), r);
  Vec undefined = lt(x, 0) & gt(a, 0) & lt(a, INFINITY) & ~integral;
  r = select(undefined, NAN, r);
  // |x| = 1 with infinite y, and anything to the power 0.
  Vec to_infinity = eq(a, 1) & eq(abs(y), INFINITY);
  return select(eq(x, 1) | eq(y, 0) | to_infinity, 1, r);
}

}  // namespace

Vec pow(Vec x, Vec y) {
  if (x.f64()) return f64::pow(x, y);
  return to_f32(pow_wide(to_f64(x), to_f64(y)));
}

}  // namespace lazuli::lowering::math
