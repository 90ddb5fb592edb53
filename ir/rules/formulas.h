// Formulas that several rows share, over Scalars.
#pragma once
#include <limits>
#include <span>
#include "ir/scalar.h"

namespace lazuli::ir {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kLog2 = 0.69314718055994530942;

inline Scalar truth(Scalar x) { return convert(x, DType::Bool); }
inline Scalar sign_of(Scalar x) {
  if (x.dtype() == DType::Bool) return x;
  return convert(x > 0.0, x.dtype()) - convert(x < 0.0, x.dtype());
}
inline Scalar sigmoid_of(Scalar x) { return 1.0 / (1.0 + exp(-x)); }

// log10(2) in two parts: the first is a float32, whose distance from the whole would be felt in the last place. Both
// are positive, so that infinities do not cancel.
inline Scalar log10_of(Scalar x) {
  Scalar y = log2(x);
  return fma(y, like(x, 1.5481333492939342e-08), y * 0.3010299801826477);
}

// `magnitude` (not negative) with x's sign, that of -0 included: 1 / -0 is -inf.
inline Scalar with_sign_of(Scalar magnitude, Scalar x) {
  return select((x < 0.0) | (reciprocal(x) < 0.0), -magnitude, magnitude);
}

inline Scalar hypotenuse(Scalar a, Scalar b) {
  Scalar x = abs(a), y = abs(b);
  const auto finite = [&] {
    if (x.dtype() == DType::F32) {
      // Float64 holds the squares exactly: the result is the nearest float32, but for a tie now and then, as the host's
      // is. Who looks for the number whose size is a norm finds it, whoever computed the norm.
      Scalar u = convert(x, DType::F64), v = convert(y, DType::F64);
      return convert(sqrt(u * u + v * v), DType::F32);
    }
    Scalar large = maximum(x, y), ratio = minimum(x, y) / large;
    return select(large == 0.0, large, large * sqrt(1.0 + ratio * ratio));
  };
  return select((x == kInfinity) | (y == kInfinity), kInfinity, finite());
}

// Past kLargeArgument the square of x would overflow, and 1 no longer counts beside it.
inline constexpr double kLargeArgument = 1e8;
inline Scalar inverse_sinh(Scalar x) {
  Scalar a = abs(x);
  Scalar small = log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
  return with_sign_of(select(a > kLargeArgument, log(a) + kLog2, small), x);
}
inline Scalar inverse_cosh(Scalar x) {
  Scalar t = x - 1.0;
  // Below 1 there is none: sqrt(t) is the NaN. The square of a large negative t would be infinite instead.
  Scalar small = select(t < 0.0, sqrt(t), log1p(t + sqrt(2.0 * t + t * t)));
  return select(x > kLargeArgument, log(x) + kLog2, small);
}

// A Chebyshev series, the coefficient of the highest degree first (Clenshaw's recurrence).
inline Scalar chebyshev(Scalar x, std::span<const double> coefficients) {
  Scalar last = like(x, 0), before = last, sum = like(x, coefficients[0]);
  for (double c : coefficients.subspan(1)) {
    before = last;
    last = sum;
    sum = x * last - before + c;
  }
  return 0.5 * (sum - before);
}

// exp(-x) i0(x) up to 8, and sqrt(x) exp(-x) i0(x) beyond in 32 / x - 2: the coefficients are those of Cephes
// (Moshier).
inline constexpr double kBesselI0[] = {
    -4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16, 1.71539128555513303061e-15,
    -1.16853328779934516808e-14, 7.67618549860493561688e-14, -4.85644678311192946090e-13, 2.95505266312963983461e-12,
    -1.72682629144155570723e-11, 9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8,  6.04699502254191894932e-8,  -2.67079385394061173391e-7,  1.11738753912010371815e-6,
    -4.41673835845875056359e-6,  1.64484480707288970893e-5,  -5.75419501008210370398e-5,  1.88502885095841655729e-4,
    -5.76375574538582365885e-4,  1.63947561694133579842e-3,  -4.32430999505057594430e-3,  1.05464603945949983183e-2,
    -2.37374148058994688156e-2,  4.93052842396707084878e-2,  -9.49010970480476444210e-2,  1.71620901522208775349e-1,
    -3.04682672343198398683e-1,  6.76795274409476084995e-1};
inline constexpr double kBesselI0Large[] = {
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17,  3.46122286769746109310e-17,
    -2.82762398051658348494e-16, -3.42548561967721913462e-16, 1.77256013305652638360e-15,  3.81168066935262242075e-15,
    -9.55484669882830764870e-15, -4.15056934728722208663e-14, 1.54008621752140982691e-14,  3.85277838274214270114e-13,
    7.18012445138366623367e-13,  -1.79417853150680611778e-12, -1.32158118404477131188e-11, -3.14991652796324136454e-11,
    1.18891471078464383424e-11,  4.94060238822496958910e-10,  3.39623202570838634515e-9,   2.26666899049817806459e-8,
    2.04891858946906374183e-7,   2.89137052083475648297e-6,   6.88975834691682398426e-5,   3.36911647825569408990e-3,
    8.04490411014108831608e-1};
// Of an infinity it is nan, as eager's.
inline Scalar bessel_i0(Scalar x) {
  Scalar a = abs(x), up_to_8 = minimum(a, 8.0), beyond = maximum(a, 8.0);
  Scalar large = chebyshev(32.0 / beyond - 2.0, kBesselI0Large) / sqrt(beyond);
  return exp(a) * select(a > 8.0, large, chebyshev(0.5 * up_to_8 - 2.0, kBesselI0));
}

}  // namespace lazuli::ir
