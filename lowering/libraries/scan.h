// Running sums and products along one dimension, and linear recurrences.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// float32 is added up and multiplied in float64 and reduced types in float32, as torch does. `out` has the operands'
// shape and type, and may have the memory of one of them.

// out[..., i, ...] = the sum of x[..., 0 to i, ...]. Operands: x.
std::unique_ptr<LibraryCall> make_cumsum(const Layout& x, const Layout& out, int64_t dim);
// The product. Operands: x.
std::unique_ptr<LibraryCall> make_cumprod(const Layout& x, const Layout& out, int64_t dim);
// out[..., i, ...] = b[..., i, ...] + a[..., i, ...] * out[..., i - 1, ...]; with `reverse`
// b[..., i, ...] + a[..., i + 1, ...] * out[..., i + 1, ...]. Operands: a, b.
std::unique_ptr<LibraryCall> make_linear_recurrence(const Layout& a, const Layout& b, const Layout& out, int64_t dim,
                                                    bool reverse);

}  // namespace lazuli::lowering
