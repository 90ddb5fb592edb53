// A few rows times a big matrix, either way round in memory: what a linear layer does for one token. Bound by reading
// the matrix once, which oneDNN, repacking it at every call, does three times slower.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Null where it does not apply: only up to four rows, rank two, float32 or bfloat16, b with strides {1, k or more} or
// {n or more, 1}, and post-ops without transcendental functions.
std::unique_ptr<LibraryCall> make_row_product(const Layout& a, const Layout& b, const Layout& out,
                                              std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
