// Cheaper forms of float32 primitives for results of Precision::Short: few instructions, no branches, and a relative
// error of about 2^-16, which is a small part of a unit in the last place of bfloat16 and of float16.
#pragma once
#include <span>

#include "ir/scalar.h"
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::gpu {

// Without a value where the usual form is as good.
Vec short_primitive(ir::Prim prim, std::span<const Vec> args);

// 1 + f(x) for an odd f with limits -1 and 1, without the cancellation at negative x that the sum would have; without
// a value for other primitives.
Vec short_one_plus(ir::Prim f, Vec x);

}  // namespace lazuli::lowering::gpu
