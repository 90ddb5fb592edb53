#include "lowering/libraries/convolution/finish_points.h"
#include "lowering/libraries/post_op_block.h"

namespace lazuli::lowering {

void finish_points(std::span<const PostOp> ops, const void* const* operands, const Points& x, const PointPlace& place) {
  const PostOpBlock<float> block{x.data, x.stride, x.points, x.channels};
  for (const PostOp& op : ops) {
    if (!has_operand(op)) {
      run_post_op(op, block, static_cast<const float*>(nullptr), 0, 0);
      continue;
    }
    const ir::Dims& s = op.operand.strides;
    const Three spatial = three(s, 2, 0);
    int64_t offset = place.n * s[0] + place.channel * s[1];
    for (int d = 0; d < 3; ++d) offset += place.at[d] * spatial[d];
    run_post_op(op, block, static_cast<const float*>(*operands++) + offset, spatial[2], s[1]);
  }
}

}  // namespace lazuli::lowering
