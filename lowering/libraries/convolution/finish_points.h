// Post-ops on some points of a result that is being computed, of which each has its channels side by side.
#pragma once
#include <span>
#include "lowering/libraries/convolution/spatial.h"
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Channel c of point p is at data + p * stride + c.
struct Points {
  float* data;
  int64_t stride, points, channels;
};
// Where the first one lies in the result; the others are its neighbours in width.
struct PointPlace {
  int64_t n, channel;
  Three at;
};
// `operands`: one for each op that has one, whose layouts have been broadcast to the result's.
void finish_points(std::span<const PostOp> ops, const void* const* operands, const Points& x, const PointPlace& place);

}  // namespace lazuli::lowering
