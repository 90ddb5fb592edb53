// Formulas that several rows share, over Scalars.
#pragma once
#include <limits>
#include "ir/scalar.h"

namespace lazuli::ir {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
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
  Scalar large = maximum(x, y), ratio = minimum(x, y) / large;
  Scalar finite = select(large == 0.0, large, large * sqrt(1.0 + ratio * ratio));
  return select((x == kInfinity) | (y == kInfinity), kInfinity, finite);
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

}  // namespace lazuli::ir
