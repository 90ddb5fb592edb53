// Elementary functions on vectors of float32 and float64, from our own polynomials: no library of the machine is
// called. float32 is within 2 units in the last place on the whole domain, edges included, float64 (f64.h) within 3.
#pragma once
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::math {

Vec exp(Vec x);
Vec expm1(Vec x);
Vec log(Vec x);
Vec log1p(Vec x);
Vec log2(Vec x);
Vec sin(Vec x);
Vec cos(Vec x);
Vec tan(Vec x);
Vec asin(Vec x);
Vec acos(Vec x);
Vec atan(Vec x);
Vec atan2(Vec y, Vec x);
Vec sinh(Vec x);
Vec cosh(Vec x);
Vec tanh(Vec x);
Vec erf(Vec x);
Vec erfc(Vec x);
Vec pow(Vec x, Vec y);

}  // namespace lazuli::lowering::math
