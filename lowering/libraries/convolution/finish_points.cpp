#include "lowering/libraries/convolution/finish_points.h"
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/post_ops.h"

namespace lazuli::lowering {
namespace {

struct FinishRow {
  // Post-op `op` on points x channels.
  LAZULI_INLINE static void run(const PostOp* op, float* x, int64_t stride, int64_t points, int64_t channels,
                                const float* y, int64_t point, int64_t channel) {
    for (int64_t p = 0; p < points; ++p, x += stride, y += point) switch (op->kind) {
        case PostOp::Add:
          if (channel == 1)
            for (int64_t c = 0; c < channels; ++c) x[c] += y[c];
          else
            for (int64_t c = 0; c < channels; ++c) x[c] += y[c * channel];
          break;
        case PostOp::Mul:
          if (channel == 1)
            for (int64_t c = 0; c < channels; ++c) x[c] *= y[c];
          else
            for (int64_t c = 0; c < channels; ++c) x[c] *= y[c * channel];
          break;
        case PostOp::Relu:
          for (int64_t c = 0; c < channels; ++c) x[c] = x[c] < 0 ? 0 : x[c];
          break;
        default:
          for (int64_t c = 0; c < channels; ++c) x[c] = apply_post_op(*op, x[c], 0.0f);
      }
  }
};

}  // namespace

void finish_points(std::span<const PostOp> ops, const void* const* operands, const Points& x, const PointPlace& place) {
  for (const PostOp& op : ops) {
    const ir::Dims& s = op.operand.strides;
    if (!has_operand(op)) {
      run_for_host<FinishRow>(&op, x.data, x.stride, x.points, x.channels, x.data, x.stride, int64_t{1});
      continue;
    }
    const Three spatial = three(s, 2, 0);
    int64_t offset = place.n * s[0] + place.channel * s[1];
    for (int d = 0; d < 3; ++d) offset += place.at[d] * spatial[d];
    run_for_host<FinishRow>(&op, x.data, x.stride, x.points, x.channels,
                            static_cast<const float*>(*operands++) + offset, spatial[2], int64_t{s[1]});
  }
}

}  // namespace lazuli::lowering
