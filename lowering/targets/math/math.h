// Elementary functions on vectors of float32 and float64. float32 is within 2 units in the last place on the whole
// domain, edges included, from our own polynomials; so is float64 where it is not handed to the C library.
#pragma once
#include <initializer_list>

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

// The C library's function, lane by lane: for rare functions of float64 only. `name` is the float64 name. For a target
// without a C library the same function of our own (f64.h).
Vec per_lane(const char* name, std::initializer_list<Vec> args);

}  // namespace lazuli::lowering::math
