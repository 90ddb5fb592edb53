// Our own convolutions in float32, channels-last: matrix products whose operand of patches is read where the image lies
// and never stored ("implicit GEMM": Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning", 2014). Such a
// call is made in microseconds, whatever the sizes; oneDNN compiles code for each.
#pragma once
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// Whether it serves a convolution of these operands, in either direction: one group, float32, and no rows, dilations or
// strides that are enormous.
bool serves_implicit_gemm(const onednn::Convolution& c);

// x and y are read and written dense channels-last; w with any strides. Each sum is made in one order, whatever the
// number of threads. Post-ops: of the forward pass only.
std::unique_ptr<LibraryCall> make_implicit_gemm(const onednn::Convolution& c, std::span<const PostOp> post_ops,
                                                bool takes_packed = false);
// Packs w for the forward pass with `takes_packed`, which is not in what is returned.
PackedCall pack_for_implicit_gemm(const onednn::Convolution& c);

}  // namespace lazuli::lowering
