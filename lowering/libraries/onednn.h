// Contractions on the CPU: matrix products and convolutions, forward and backward, with post-ops. oneDNN serves float32
// and bfloat16 (float16 through float32), but for products and convolutions that are faster by code of ours; our own
// loops serve float64, most integers and degenerate sizes.
//
// A factory decides everything that depends on shapes: the implementation, the layouts inside it, and whether operands
// are reordered into scratch first. What it returns runs in microseconds plus the work itself. One call object must not
// run on two threads at once; different ones may. Factories throw TypeError for operands that do not fit, and
// std::runtime_error where nothing can serve the call.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Much: the call runs as fast as it can. Little: it is made fast, and runs about as fast as eager's.
enum class Effort : uint8_t { Much, Little };

// out[..., m, n] = post(a[..., m, k] x b[..., k, n]), all of equal rank >= 2. Any strides: transposed, sliced,
// broadcast (0) operands cost a copy only where oneDNN cannot take them. Reduced floating types accumulate in
// float32 and round once, after the post-ops. Operands: a, b, post-op operands.
std::unique_ptr<LibraryCall> make_matmul(const Layout& a, const Layout& b, const Layout& out,
                                         std::span<const PostOp> post_ops = {}, Effort effort = Effort::Much);

// make_matmul's call with b packed. `pack` is null where nothing reads a packed b, or reads b as it is as well; then
// use make_matmul.
PackedCall make_packed_matmul(const Layout& a, const Layout& b, const Layout& out,
                              std::span<const PostOp> post_ops = {});

// out[m, n] = a[m, k] x b[k, n], added up in int32. a: int8 or uint8; b: int8; any strides.
std::unique_ptr<LibraryCall> make_int_mm(const Layout& a, const Layout& b, const Layout& out,
                                         Effort effort = Effort::Much);
PackedCall make_packed_int_mm(const Layout& a, const Layout& b, const Layout& out, Effort effort = Effort::Much);

// Attributes of torch's convolution, one number for each spatial dimension (one to three of them).
struct ConvolutionParams {
  ir::Dims stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
};

// Shapes: x [N, C, spatial...], w [OC, C / groups, kernel...] (transposed: [C, OC / groups, kernel...]), out [N, OC,
// spatial...]. Any strides; channels-last ones (strides of a permuted value) cost no copy, and oneDNN reads row-major
// ones, too. Operands: x, w, post-op operands.
std::unique_ptr<LibraryCall> make_convolution(const Layout& x, const Layout& w, const Layout& out,
                                              const ConvolutionParams& params, std::span<const PostOp> post_ops = {},
                                              Effort effort = Effort::Much);
// The same with w packed, where `pack` is not null.
PackedCall make_packed_convolution(const Layout& x, const Layout& w, const Layout& out, const ConvolutionParams& params,
                                   std::span<const PostOp> post_ops = {}, Effort effort = Effort::Much);
// The gradient with regard to x. Operands: gy, w.
std::unique_ptr<LibraryCall> make_convolution_input_grad(const Layout& gy, const Layout& w, const Layout& gx,
                                                         const ConvolutionParams& params, Effort effort = Effort::Much);
// The gradient with regard to w. Operands: gy, x.
std::unique_ptr<LibraryCall> make_convolution_weight_grad(const Layout& gy, const Layout& x, const Layout& gw,
                                                          const ConvolutionParams& params,
                                                          Effort effort = Effort::Much);
// Whether Effort::Little has these post-ops done with the convolution: those that our own one does well. A kernel does
// others.
bool convolution_takes(ir::DType type, bool transposed, std::span<const PostOp> post_ops, Effort effort);

}  // namespace lazuli::lowering
