// Pieces that several functions are made of.
#pragma once
#include "lowering/targets/math/math.h"

namespace lazuli::lowering::math {

// 2^n for integers n that give a normal number of `like`'s type.
Vec power_of_two(Vec n, Vec like);
// p times 2^n in two steps, so that overflow and gradual underflow come out right and rounded once.
Vec scaled(Vec p, Vec n);

// exp(x) for float32 |x| < 87: neither clamped nor with edges, and exact to a few units in the last place of the larger
// of itself and 1 only.
Vec exp_core(Vec x);

// In float64, with about 2^-38 of relative error: for functions of float32 that cancel or amplify.
Vec exp_wide(Vec x);   // |x| <= 700
Vec exp2_wide(Vec x);  // |x| <= 1000
Vec log2_wide(Vec x);  // positive, finite, normal

// In place of a function of float32: computed in float64 and rounded.
inline Vec in_f64(Vec x, Vec (*f)(Vec)) { return to_f32(f(to_f64(x))); }

}  // namespace lazuli::lowering::math
