// What decompositions share.
#pragma once
#include "ir/builder.h"

namespace lazuli::ir {

// Composites compute in the compute type, and round once at the end.
inline Value widen(Builder& b, Value x) { return b.convert(x, compute_type(b.dtype(x))); }

}  // namespace lazuli::ir
