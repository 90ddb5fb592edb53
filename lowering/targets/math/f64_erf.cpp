// erf and erfc of float64: one rational function for each of four ranges. erf so only on GPUs (erf.cpp).
#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {
namespace {

constexpr double kErfOne = 8.45062911510467529297e-01;  // close to erf(1), in few bits

// (erf(x) - x) / x at z = x^2, for |x| < 0.84375.
Vec near_zero(Vec z) {
  Vec p = horner(z, {-2.37630166566501626084e-05, -5.77027029648944159157e-03, -2.84817495755985104766e-02,
                     -3.25042107247001499370e-01, 1.28379167095512558561e-01});
  Vec q = horner(z, {-3.96022827877536812320e-06, 1.32494738004321644526e-04, 5.08130628187576562776e-03,
                     6.50222499887672944485e-02, 3.97917223959155352819e-01, 1.0});
  return p / q;
}

// erf(a) - kErfOne for 0.84375 <= a < 1.25.
Vec near_one(Vec a) {
  Vec s = a - 1;
  Vec p = horner(s, {-2.16637559486879084300e-03, 3.54783043256182359371e-02, -1.10894694282396677476e-01,
                     3.18346619901161753674e-01, -3.72207876035701323847e-01, 4.14856118683748331666e-01,
                     -2.36211856075265944077e-03});
  Vec q = horner(s, {1.19844998467991074170e-02, 1.36370839120290507362e-02, 1.26171219808761642112e-01,
                     7.18286544141962662868e-02, 5.40397917702171048937e-01, 1.06420880400844228286e-01, 1.0});
  return p / q;
}

// erfc(a) for 1.25 <= a < 28.
Vec tail(Vec a) {
  Vec s = 1 / (a * a), far = gt(a, 1 / 0.35);
  Vec r = horner(s, {-9.81432934416914548592e+00, -8.12874355063065934246e+01, -1.84605092906711035994e+02,
                     -1.62396669462573470355e+02, -6.23753324503260060396e+01, -1.05586262253232909814e+01,
                     -6.93858572707181764372e-01, -9.86494403484714822705e-03}) /
          horner(s, {-6.04244152148580987438e-02, 6.57024977031928170135e+00, 1.08635005541779435134e+02,
                     4.29008140027567833386e+02, 6.45387271733267880336e+02, 4.34565877475229228821e+02,
                     1.37657754143519042600e+02, 1.96512716674392571292e+01, 1.0});
  Vec r_far = horner(s, {-4.83519191608651397019e+02, -1.02509513161107724954e+03, -6.37566443368389627722e+02,
                         -1.60636384855821916062e+02, -1.77579549177547519889e+01, -7.99283237680523006574e-01,
                         -9.86494292470009928597e-03}) /
              horner(s, {-2.24409524465858183362e+01, 4.74528541206955367215e+02, 2.55305040643316442583e+03,
                         3.19985821950859553908e+03, 1.53672958608443695994e+03, 3.25792512996573918826e+02,
                         3.03380607434824582924e+01, 1.0});
  // a^2 in two parts, of which the first is exact.
  Vec z = from_bits(bits_of(a) & integer(bits_of(a), ~int64_t{0xffffffff}));
  return exp(-(z * z) - 0.5625) * exp(fma(z - a, z + a, select(far, r_far, r))) / a;
}

}  // namespace

Vec erf(Vec x) {
  Vec a = clamp(abs(x), 0, 6);
  Vec small = fma(x, near_zero(x * x), x);
  Vec middle = near_one(a) + kErfOne;
  Vec large = 1 - tail(max_or_second(number(a, 1.25), a));
  return select(lt(a, 0.84375), small, copysign(select(lt(a, 1.25), middle, large), x));
}

Vec erfc(Vec x) {
  Vec a = clamp(abs(x), 0, 28);
  Vec y = near_zero(x * x), small = select(lt(x, 0.25), 1 - fma(x, y, x), 0.5 - fma(x, y, x - 0.5));
  Vec middle = near_one(a), large = tail(max_or_second(number(a, 1.25), a));
  Vec right = select(lt(a, 1.25), (1 - kErfOne) - middle, large);
  Vec left = select(lt(a, 1.25), middle + kErfOne + 1, 2 - large);
  return select(lt(a, 0.84375), small, select(lt(x, 0), left, right));
}

}  // namespace lazuli::lowering::math::f64
