// Which post-ops a BLAS does for nothing, while its result is still in registers: d = act(alpha a x b + c + bias).
#pragma once
#include <optional>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

struct BlasEpilogue {
  enum Activation : uint8_t { None, Relu, GeluTanh };
  float alpha = 1;
  bool bias = false;             // the post-ops' operand, along the last dimension
  std::optional<Layout> addend;  // or it is added whole: its layout in the result's shape
  Activation activation = None;
};

// Nothing where a product of `type` written as `out` does not take the whole chain: then the rest stays in a generated
// kernel. A prefix of a chain that is taken is taken too.
std::optional<BlasEpilogue> blas_epilogue(ir::DType type, std::span<const PostOp> post_ops, const Layout& out);

}  // namespace lazuli::lowering
