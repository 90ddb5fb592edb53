// Functions that have no polynomial of our own yet come from the C library.
#include "lowering/targets/math/math.h"

namespace lazuli::lowering::math {

#define LAZULI_FROM_LIBM(name) \
  Vec name(Vec x) { return per_lane(#name, {x}); }
LAZULI_FROM_LIBM(exp)
LAZULI_FROM_LIBM(expm1)
LAZULI_FROM_LIBM(log)
LAZULI_FROM_LIBM(log1p)
LAZULI_FROM_LIBM(log2)
LAZULI_FROM_LIBM(sin)
LAZULI_FROM_LIBM(cos)
LAZULI_FROM_LIBM(tan)
LAZULI_FROM_LIBM(asin)
LAZULI_FROM_LIBM(acos)
LAZULI_FROM_LIBM(atan)
LAZULI_FROM_LIBM(sinh)
LAZULI_FROM_LIBM(cosh)
LAZULI_FROM_LIBM(tanh)
LAZULI_FROM_LIBM(erf)
LAZULI_FROM_LIBM(erfc)
#undef LAZULI_FROM_LIBM
Vec atan2(Vec y, Vec x) { return per_lane("atan2", {y, x}); }
Vec pow(Vec x, Vec y) { return per_lane("pow", {x, y}); }

}  // namespace lazuli::lowering::math
