// Post-ops where the library does not take them: on the tile that a fallback has just computed, or as one more
// pass over the result.
#pragma once
#include <cmath>
#include <span>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/library.h"
#include "lowering/libraries/vector_math.h"

namespace lazuli::lowering {

inline bool has_operand(const PostOp& op) { return op.kind == PostOp::Add || op.kind == PostOp::Mul; }

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

// x after an op of this kind, one without an operand.
template <PostOp::Kind kind, class C>
LAZULI_INLINE C after_function(C x, C alpha, C beta) {
  static_assert(std::is_floating_point_v<C>);
  if constexpr (kind == PostOp::Relu) return x < C(0) ? C(0) : x;
  if constexpr (kind == PostOp::LeakyRelu) return x > C(0) ? x : x * alpha;
  if constexpr (kind == PostOp::Clamp) return held_between(x, alpha, beta);
  if constexpr (kind == PostOp::Scale) return x * alpha;
  if constexpr (kind == PostOp::GeluErf) return C(0.5) * x * (1 + vector_erf(x * C(0.70710678118654752440)));
  // (1 + tanh(u)) / 2 is sigmoid(2 u).
  if constexpr (kind == PostOp::GeluTanh)
    return x * vector_sigmoid(C(1.59576912160573071) * (x + C(0.044715) * x * x * x));
  if constexpr (kind == PostOp::Sigmoid) return vector_sigmoid(x);
  if constexpr (kind == PostOp::Tanh) return vector_tanh(x);
  if constexpr (kind == PostOp::Silu) return x / (1 + vector_exp(-x));
  if constexpr (kind == PostOp::HardSwish) return x * held_between(x + 3, C(0), C(6)) / 6;
}

// Calls f with the kind of an op without an operand as a constant.
template <class F>
LAZULI_INLINE void with_function(PostOp::Kind kind, F f) {
  switch (kind) {
#define LAZULI_KIND(k) \
  case PostOp::k:      \
    return f(std::integral_constant<PostOp::Kind, PostOp::k>{});
    LAZULI_FUNCTIONS(LAZULI_KIND)
#undef LAZULI_KIND
    default:
      return;
  }
}

// Applies `ops` in place to `data`, laid out as `result`, rounding once at the end. `operands` holds one pointer for
// each op that has an operand; their layouts must have been broadcast already.
void run_post_ops(std::span<const PostOp> ops, const Layout& result, void* data, const void* const* operands);

}  // namespace lazuli::lowering
