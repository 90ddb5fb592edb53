// A few rows times a big matrix, either way round in memory: what a linear layer does for the next token of a few
// texts. Bound by reading the matrix once. On a processor with AVX-512 two threads read one of 768 x 3072 at 24 GB/s
// for one row and 18 for eight; a BLAS does at 25 and 15, oneDNN at 16 and 13, and at 22 and 15 where it is packed.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Null where it does not apply. Only up to eight rows (four without AVX-512, or where b's rows lie side by side), rank
// two, float32 or bfloat16, b with strides {1, k or more} or {n or more, 1}.
std::unique_ptr<LibraryCall> make_row_product(const Layout& a, const Layout& b, const Layout& out,
                                              std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
