// sinh, cosh and tanh (Cody and Waite, chapters 12 and 13): a polynomial near 0 (tools/fit), else from exp.
#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

Vec sinh_wide(Vec x) {
  Vec a = clamp(abs(x), 0, 100), z = a * a;
  Vec p = horner(z, {2.5529823074146403e-08, 2.755206398104644e-06, 0.00019841296046175792, 0.00833333327633888,
                     0.16666666667069127});
  Vec e = exp_wide(a);
  Vec y = select(lt(a, 1), fma(a * z, p, a), (e - 1 / e) * 0.5);
  return copysign(y, x);
}

Vec cosh_wide(Vec x) {
  Vec e = exp_wide(clamp(abs(x), 0, 100));
  return (e + 1 / e) * 0.5;
}

}  // namespace

Vec sinh(Vec x) { return x.f64() ? f64::sinh(x) : in_f64(x, sinh_wide); }
Vec cosh(Vec x) { return x.f64() ? f64::cosh(x) : in_f64(x, cosh_wide); }

Vec tanh(Vec x) {
  if (x.f64()) return f64::tanh(x);
  Vec a = clamp(abs(x), 0, 10), z = a * a;
  Vec p = horner(z, {0.002157613867893815, -0.00819507334381342, 0.021708747372031212, -0.05394846200942993,
                     0.13333222270011902, -0.3333333134651184});
  Vec small = fma(a * z, p, a);
  Vec large = 1 - 2 / (exp_core(a + a) + 1);
  return copysign(select(lt(a, 0.625), small, large), x);
}

}  // namespace lazuli::lowering::math
