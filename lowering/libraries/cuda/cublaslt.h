// Matrix products on an NVIDIA GPU, by cuBLASLt. Neither CUDA's headers nor its libraries are needed to plan a product:
// the library is found at the first run.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"
#include "lowering/libraries/matmul_settings.h"

namespace lazuli::lowering {

// Whether an operand is read where it lies; a generated kernel must copy any other to a dense one.
bool cublaslt_reads(const Layout& operand);

// Whether a product of `type` written as `out` does these post-ops for nothing: scales, then one bias along the last
// dimension or one addend of the result's shape, then relu or tanh-gelu (bfloat16 and float16 only).
bool cublaslt_takes(ir::DType type, std::span<const PostOp> post_ops, const Layout& out);

// out[..., m, n] = post(a[..., m, k] x b[..., k, n]), all of equal rank >= 2. Operands: a, b, the post-ops' operand,
// all on the device; an addend may share the result's memory if it has its layout. Runs enqueue on on_stream()'s
// stream, with the device's context current.
//
// Null where the product is not cuBLASLt's: other types than bf16, f16, f32 and f64 (the result's may be f32 where the
// operands are bf16 or f16), operands that it does not read, or post-ops that it does not take. Sizes of 0 are served.
// Throws TypeError for operands that do not fit.
std::unique_ptr<LibraryCall> make_cublaslt_matmul(const Layout& a, const Layout& b, const Layout& out,
                                                  std::span<const PostOp> post_ops, const MatmulSettings& settings);

}  // namespace lazuli::lowering
