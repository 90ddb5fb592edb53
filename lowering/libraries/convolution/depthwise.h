// Our own depthwise convolutions in float32: each channel has a kernel of its own, and is a lane of vectors. Made in
// microseconds, whatever the sizes, and without a barrier inside: oneDNN compiles code for each size, and has no code
// but sums of small products for most gradients by weights.
#pragma once
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// Whether it serves a convolution of these operands, in either direction: as many groups as channels on both sides,
// float32, and no enormous rows.
bool serves_depthwise(const onednn::Convolution& c);

// Operands with any strides; it is fast where images lie row-major or channels-last. Each sum is made in one order,
// whatever the number of threads. Post-ops: of the forward pass only.
std::unique_ptr<LibraryCall> make_depthwise(const onednn::Convolution& c, std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
