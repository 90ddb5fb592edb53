// Our own convolution, by plain loops: float64, integers, and whatever oneDNN has no fast
// implementation for.
#pragma once
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// All three operands have one element type. Sums are made in the compute type, in one fixed order.
std::unique_ptr<LibraryCall> make_direct_convolution(const onednn::Convolution& c, std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
