// Matrix products of float32 and float64 by the BLAS that the process has: torch brings one, tuned for the CPU, and the
// programs without torch have none. It is found by name when the library is loaded, so nothing of it is needed to build
// or to link.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// out[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]. Null without a BLAS, for other types, for operands that
// blas_reads and blas_writes (blas_product.h) say no to, and for sizes that its 32-bit integers do not hold. No
// dimension may be empty.
std::unique_ptr<LibraryCall> make_host_blas_product(const Layout& a, const Layout& b, const Layout& out);

// Whether the BLAS uses vectors as wide as the processor's. MKL uses AVX-512 on Intel's processors alone.
bool host_blas_is_as_wide();

}  // namespace lazuli::lowering
