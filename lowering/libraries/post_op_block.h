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

struct OperandLoops {
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
  template <class C, class E>
  LAZULI_INLINE static void run(const PostOp* op, PostOpBlock<C> x, const E* y, int64_t down, int64_t along) {
    if (op->kind == PostOp::Add)
      each(x, y, down, along, [](C a, C b) LAZULI_INLINE_LAMBDA { return a + b; });
    else
      each(x, y, down, along, [](C a, C b) LAZULI_INLINE_LAMBDA { return a * b; });
  }
};

struct FunctionLoops {
  template <class C>
  LAZULI_INLINE static void run(const PostOp* op, PostOpBlock<C> x) {
    const C alpha = static_cast<C>(op->alpha), beta = static_cast<C>(op->beta);
    with_function(op->kind, [&](auto kind) LAZULI_INLINE_LAMBDA {
      constexpr PostOp::Kind one = decltype(kind)::value;
      for (int64_t r = 0; r < x.rows; ++r) {
        C* to = x.data + r * x.stride;
#pragma omp simd
        for (int64_t c = 0; c < x.columns; ++c) to[c] = after_function<one>(to[c], alpha, beta);
      }
    });
  }
};

// x after `op`. Of Add and Mul, y is the operand's first element, `down` and `along` how far apart those of rows and
// columns are.
template <class C, class E>
void run_post_op(const PostOp& op, PostOpBlock<C> x, const E* y, int64_t down, int64_t along) {
  if (has_operand(op))
    run_for_host<OperandLoops>(&op, x, y, down, along);
  else
    run_for_host<FunctionLoops>(&op, x);
}

}  // namespace lazuli::lowering
