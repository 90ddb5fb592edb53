// Running sums along one dimension.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// out[..., i, ...] = the sum of x[..., 0 to i, ...]. float32 sums in float64 and reduced types in float32, as torch
// does. Operands: x; out has x's shape and type, and may share its memory.
std::unique_ptr<LibraryCall> make_cumsum(const Layout& x, const Layout& out, int64_t dim);

}  // namespace lazuli::lowering
