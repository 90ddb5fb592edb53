// What oneDNN itself can do, without its headers: matmul.cpp and convolution.cpp choose among these. Each function
// returns null where oneDNN has only its slow reference implementation, so that the caller can try something else.
#pragma once
#include "lowering/libraries/onednn.h"

namespace lazuli::lowering::onednn {

// How an operand's layout is treated inside a primitive.
enum class Inner : uint8_t {
  Given,         // as the caller's layout says
  Best,          // what the implementation likes best, reordered from or to the caller's layout where it differs
  ChannelsLast,  // of convolutions: dense channels-last, reordered likewise
};

std::unique_ptr<LibraryCall> matmul(const Layout& a, const Layout& b, const Layout& out,
                                    std::span<const PostOp> post_ops, Inner b_layout);
PackedCall packed_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> post_ops);

enum class Pass : uint8_t { Forward, InputGrad, WeightGrad };

// A plain (not transposed) convolution between `x`, `w` and `y`, whichever of them is the result. Operands: Forward x,
// w, post-op operands; InputGrad y, w; WeightGrad y, x (`swapped`: x, y).
struct Convolution {
  Pass pass = Pass::Forward;
  Layout x, w, y;
  ir::Dims stride, padding, dilation;
  int64_t groups = 1;
  bool swapped = false;
};
std::unique_ptr<LibraryCall> convolution(const Convolution& c, std::span<const PostOp> post_ops, Inner activations);
PackedCall packed_convolution(const Convolution& c, std::span<const PostOp> post_ops, Inner activations);

// Whether oneDNN computes on this type on this machine.
bool supports(ir::DType dtype);
// Whether the processor adds up products of bytes in int32. Without that, oneDNN adds up two of them in int16, which is
// too narrow for some.
bool multiplies_bytes();

}  // namespace lazuli::lowering::onednn
