// Elementary functions of float64 that math.h has no polynomial of. Within 3 units in the last place on the whole
// domain, edges included; fmod is exact. The formulas and coefficients are those of FreeBSD's msun (Copyright (C)
// 1993 Sun Microsystems, Inc.; permission to use, copy, modify and distribute is freely granted provided that this
// notice is preserved) where nothing else is said.
#pragma once
#include "lowering/targets/math/parts.h"

namespace lazuli::lowering::math::f64 {

Vec expm1(Vec x);
Vec sinh(Vec x);
Vec cosh(Vec x);
Vec tanh(Vec x);
Vec log(Vec x);
Vec log1p(Vec x);
Vec log2(Vec x);
Vec pow(Vec x, Vec y);
Vec sin(Vec x);
Vec cos(Vec x);
Vec tan(Vec x);
Vec asin(Vec x);
Vec acos(Vec x);
Vec atan(Vec x);
Vec atan2(Vec y, Vec x);
Vec erf(Vec x);
Vec erfc(Vec x);
Vec fmod(Vec a, Vec b);

}  // namespace lazuli::lowering::math::f64
