// Scaled dot-product attention, softmax(scale * q k^T + mask) v, and its gradients, in float32, tile by tile: the
// scores are never all in memory. T. Dao et al., FlashAttention, 2022; softmax with a running maximum and sum by M.
// Milakov and N. Gimelshein, Online normalizer calculation for softmax, 2018.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

struct AttentionParams {
  double scale = 1;
  bool causal = false;  // query i meets keys 0 to i
};

// Operands and results are contiguous along their last dimension, or that has one element.
struct AttentionOperands {
  Layout q;  // [batch, queries, heads, depth]
  // [batch, keys, groups, depth]: `heads` is a multiple of `groups`, and head h meets h / (heads / groups)
  Layout k;
  Layout v;                      // [batch, keys, groups, width]
  const Layout* mask = nullptr;  // broadcasts to [batch, heads, queries, keys]: added to the scores
};

// out [batch, queries, heads, width]; statistics [batch, heads, queries, 2]: of each row the largest score, and the
// logarithm of the sum of exponentials of what scores are less. (Their sum alone would lose the second beside scores
// masked by the least float.) Where all keys are masked 0, and 0 and inf. Operands in order: q, k, v, mask. The bits do
// not hang on the number of threads.
std::unique_ptr<LibraryCall> make_attention(const AttentionOperands& in, const Layout& out, const Layout& statistics,
                                            const AttentionParams& params);

struct AttentionGradients {
  Layout gq, gk, gv;
};
// Operands in order: gy, q, k, v, out, statistics, mask. gy is laid out as any `out`.
std::unique_ptr<LibraryCall> make_attention_backward(const Layout& gy, const AttentionOperands& in, const Layout& out,
                                                     const Layout& statistics, const AttentionGradients& results,
                                                     const AttentionParams& params);

}  // namespace lazuli::lowering
