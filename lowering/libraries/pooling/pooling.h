// Pooling over two spatial dimensions, forward and backward, for any strides: vectorized over channels when those are
// contiguous (channels-last), and over the width otherwise.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// torch's attributes; `stride` must be spelled out.
struct PoolParams {
  ir::Dims kernel, stride, padding;
  ir::Dims dilation{1, 1};        // max pooling only
  bool count_include_pad = true;  // average pooling only, as the next one
  int64_t divisor_override = 0;   // 0: none
};

// Shapes: x [..., C, H, W] or [H, W], results likewise with the output's size (which ceil_mode has decided).
// The first of equal maxima wins and NaN wins over all, as in torch; `indices` (i64) are flat positions in the H x W
// plane. Operands: x; results: values, indices (may be null: then there are none).
std::unique_ptr<LibraryCall> make_max_pool2d(const Layout& x, const Layout& values, const Layout& indices,
                                             const PoolParams& params);
// gy added up at the indices. Operands: gy, indices. Deterministic: each element of gx sums in the order of gy.
std::unique_ptr<LibraryCall> make_max_pool2d_grad(const Layout& gy, const Layout& indices, const Layout& gx);
// Operands: x.
std::unique_ptr<LibraryCall> make_avg_pool2d(const Layout& x, const Layout& out, const PoolParams& params);
// Operands: gy.
std::unique_ptr<LibraryCall> make_avg_pool2d_grad(const Layout& gy, const Layout& gx, const PoolParams& params);

}  // namespace lazuli::lowering
