// Cheaper forms of float32 primitives for results that become bfloat16 or float16: few instructions, no branches. For
// Precision::Short, relative errors of about 2^-16 are a small part of such a type's unit in the last place. For
// Precision::Near they are about 2^-21 (an exponential's, as if its argument were rounded), and so are small beside
// what is left of a sum, unless it is nearly 0.
#pragma once
#include <span>

#include "ir/scalar.h"
#include "lowering/targets/gpu/precision.h"
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::gpu {

// Without a value where the usual form is as good.
Vec short_primitive(ir::Prim prim, std::span<const Vec> args, Precision precision);

// 1 + f(x) and 1 - f(x)^2 for an odd f with limits -1 and 1, without the cancellation that these sums would have;
// without a value for other primitives.
Vec short_one_plus(ir::Prim f, Vec x, Precision precision);
Vec short_one_minus_square(ir::Prim f, Vec x, Precision precision);

}  // namespace lazuli::lowering::gpu
