// Our own matrix product: for what no library serves (the integers, and float64 where there is no BLAS or the product
// has post-ops), and for float32 where it is the fastest (matmul.cpp). Blocked, packed and threaded.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// out[..., m, n] = post(sum over k of a[..., m, k] * b[..., k, n]); any strides, any number of batch dimensions.
// The sum is made in the compute type, in one order whatever the number of threads. Operands must have equal rank;
// a batch dimension may be broadcast by stride 0. Neither the result nor k may be empty.
std::unique_ptr<LibraryCall> make_gemm(const Layout& a, const Layout& b, const Layout& out,
                                       std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
