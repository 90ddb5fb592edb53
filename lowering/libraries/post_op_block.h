// A post-op on a block of rows that is in the first cache: a loop that the compiler vectorizes for the host.
#pragma once
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/post_ops.h"

namespace lazuli::lowering {

// Rows of numbers side by side, `stride` apart.
template <class C>
struct PostOpBlock {
  C* data;
  int64_t stride, rows, columns;
};

struct PostOpLoops {
  template <class C, class E, class F>
  LAZULI_INLINE static void each(PostOpBlock<C> x, const E* y, int64_t down, int64_t along, F f) {
    for (int64_t r = 0; r < x.rows; ++r) {
      C* to = x.data + r * x.stride;
      const E* from = y + r * down;
      if (along == 1) {
#pragma omp simd
        for (int64_t c = 0; c < x.columns; ++c) to[c] = f(to[c], static_cast<C>(from[c]));
      } else {
#pragma omp simd
        for (int64_t c = 0; c < x.columns; ++c) to[c] = f(to[c], static_cast<C>(from[c * along]));
      }
    }
  }
  template <class C, class F>
  LAZULI_INLINE static void each(PostOpBlock<C> x, F f) {
    for (int64_t r = 0; r < x.rows; ++r) {
      C* to = x.data + r * x.stride;
#pragma omp simd
      for (int64_t c = 0; c < x.columns; ++c) to[c] = f(to[c]);
    }
  }

  template <class C, class E>
  LAZULI_INLINE static void run(const PostOp* op, PostOpBlock<C> x, const E* y, int64_t down, int64_t along) {
    switch (op->kind) {
      case PostOp::Add:
        return each(x, y, down, along, [](C a, C b) LAZULI_INLINE_LAMBDA { return static_cast<C>(a + b); });
      case PostOp::Mul:
        return each(x, y, down, along, [](C a, C b) LAZULI_INLINE_LAMBDA { return static_cast<C>(a * b); });
      case PostOp::Relu:
        return each(x, [](C a) LAZULI_INLINE_LAMBDA { return a < C(0) ? C(0) : a; });
      case PostOp::HardSwish:
        return each(x, [](C a) LAZULI_INLINE_LAMBDA { return hard_swish(a); });
      case PostOp::Scale: {
        const C scale = static_cast<C>(op->scale);
        return each(x, [scale](C a) LAZULI_INLINE_LAMBDA { return static_cast<C>(a * scale); });
      }
      default:
        return each(x, [op](C a) LAZULI_INLINE_LAMBDA { return apply_post_op(*op, a, C(0)); });
    }
  }
};

// x after `op`. Of Add and Mul, y is the operand's first element, `down` and `along` how far apart those of rows and
// columns are.
template <class C, class E>
void run_post_op(const PostOp& op, PostOpBlock<C> x, const E* y, int64_t down, int64_t along) {
  run_for_host<PostOpLoops>(&op, x, y, down, along);
}

}  // namespace lazuli::lowering
