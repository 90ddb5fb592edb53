// Post-ops where the library does not take them: on the tile that a fallback has just computed, or as one more
// pass over the result.
#pragma once
#include <cmath>
#include <span>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

inline bool has_operand(const PostOp& op) { return op.kind == PostOp::Add || op.kind == PostOp::Mul; }

// Whether it takes no function that a loop of C++ computes slowly.
inline bool is_simple(const PostOp& op) {
  return has_operand(op) || op.kind == PostOp::Relu || op.kind == PostOp::HardSwish || op.kind == PostOp::Scale;
}

// `operand` seen with the result's shape: missing leading dimensions and broadcast ones have stride 0. Throws when
// it does not broadcast.
Layout broadcast_to(const Layout& operand, const ir::Dims& shape);
// Whether the elements of an operand that was broadcast so lie side by side, in the order of `like`'s dimensions.
// oneDNN reads any other operand of a post-op wrongly, without a complaint.
bool packed_like(const Layout& operand, const Layout& like);
// Whether the operand has one number for each channel, dimension 1 of `shape`, side by side.
bool is_per_channel(const Layout& operand, const ir::Dims& shape);
// The same post-ops with every operand broadcast so.
std::vector<PostOp> broadcast_post_ops(std::span<const PostOp> ops, const ir::Dims& shape);

// x times how much of [0, 6] lies below x + 3.
template <class C>
LAZULI_INLINE C hard_swish(C x) {
  const C gate = x + 3 < C(0) ? C(0) : x + 3;
  return static_cast<C>(x * (gate > C(6) ? C(6) : gate) / 6);
}

// x after `op`; `y` is the operand's element for Add and Mul.
template <class C>
inline C apply_post_op(const PostOp& op, C x, C y) {
  static_assert(std::is_floating_point_v<C>);
  switch (op.kind) {
    case PostOp::Add:
      return static_cast<C>(x + y);
    case PostOp::Mul:
      return static_cast<C>(x * y);
    case PostOp::Relu:
      return x < C(0) ? C(0) : x;
    case PostOp::Scale:
      return static_cast<C>(x * static_cast<C>(op.scale));
    case PostOp::GeluErf:
      return C(0.5) * x * (1 + std::erf(x * C(0.70710678118654752440)));
    case PostOp::GeluTanh: {
      const C inner = C(0.79788456080286535588) * (x + C(0.044715) * x * x * x);
      return C(0.5) * x * (1 + std::tanh(inner));
    }
    case PostOp::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOp::Tanh:
      return std::tanh(x);
    case PostOp::Silu:
      return x / (1 + std::exp(-x));
    case PostOp::HardSwish:
      return hard_swish(x);
  }
  throw InternalError("no such post-op");
}

// Applies `ops` in place to `data`, laid out as `result`, rounding once at the end. `operands` holds one pointer for
// each op that has an operand; their layouts must have been broadcast already.
void run_post_ops(std::span<const PostOp> ops, const Layout& result, void* data, const void* const* operands);

}  // namespace lazuli::lowering
