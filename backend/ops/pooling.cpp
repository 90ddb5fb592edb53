// Pooling over the last two dimensions, and the windows themselves as columns.
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/max_pool1d_native.h>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

// Torch lets one number stand for both dimensions, and no stride for the kernel's.
ir::Dims both(IntArrayRef v, IntArrayRef otherwise = {}) {
  if (v.empty()) v = otherwise;
  return v.size() == 1 ? ir::Dims{v[0], v[0]} : lazy::to_dims(v);
}
bool plane(const Tensor& x) {
  return is_ours(x) && c10::isFloatingType(x.scalar_type()) && (x.dim() == 4 || x.dim() == 3) && x.numel() > 0;
}

std::tuple<Tensor, Tensor> max_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                    IntArrayRef dilation, bool ceil) {
  if (!plane(x))
    return fall_back_tuple<2>("aten::max_pool2d_with_indices", "", x, kernel, stride, padding, dilation, ceil);
  ir::Attrs attrs;
  attrs.add(both(kernel)).add(both(stride, kernel)).add(both(padding)).add(both(dilation)).add(ceil);
  lazy::Order order = format_order(x);
  lazy::Recording r;
  ir::Value v = r.emit(ir::Op::max_pool2d, {r.value(x)}, attrs);
  return {tensor_in(r, v, x.scalar_type(), order), tensor_in(r, v.next(), at::kLong, order)};
}
Tensor max_pool_backward(const Tensor& gy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                         IntArrayRef dilation, bool ceil, const Tensor& indices) {
  if (!plane(x) || !plane(gy) || !is_ours(indices))
    return fall_back<Tensor>("aten::max_pool2d_with_indices_backward", "", gy, x, kernel, stride, padding, dilation,
                             ceil, indices);
  ir::Attrs attrs;
  attrs.add(lazy::to_dims(x.sizes()));
  lazy::Recording r;
  return tensor_in(r, r.emit(ir::Op::max_pool2d_grad, {r.value(gy), r.value(indices)}, attrs), x.scalar_type(),
                   format_order(x));
}

ir::Attrs average(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil, bool count_pad,
                  optional<int64_t> divisor) {
  ir::Attrs attrs;
  return attrs.add(both(kernel))
      .add(both(stride, kernel))
      .add(both(padding))
      .add(ceil)
      .add(count_pad)
      .add(divisor.value_or(0));
}
Tensor avg_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil, bool count_pad,
                optional<int64_t> divisor) {
  if (!plane(x) || (divisor && *divisor == 0))
    return fall_back<Tensor>("aten::avg_pool2d", "", x, kernel, stride, padding, ceil, count_pad, divisor);
  lazy::Recording r;
  return tensor_in(r,
                   r.emit(ir::Op::avg_pool2d, {r.value(x)}, average(kernel, stride, padding, ceil, count_pad, divisor)),
                   x.scalar_type(), format_order(x));
}
Tensor avg_pool_backward(const Tensor& gy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                         bool ceil, bool count_pad, optional<int64_t> divisor) {
  if (!plane(x) || !plane(gy) || (divisor && *divisor == 0))
    return fall_back<Tensor>("aten::avg_pool2d_backward", "", gy, x, kernel, stride, padding, ceil, count_pad, divisor);
  lazy::Recording r;
  ir::Attrs attrs = average(kernel, stride, padding, ceil, count_pad, divisor).add(lazy::to_dims(x.sizes()));
  return tensor_in(r, r.emit(ir::Op::avg_pool2d_grad, {r.value(gy)}, attrs), x.scalar_type(), format_order(x));
}

// Adaptive windows are all alike where the size that is asked for divides the image's. Where it does not they overlap,
// each in its own way, and torch's kernel is as good as any.
bool divides(IntArrayRef size, const Tensor& x) {
  return plane(x) && size.size() == 2 && size[0] > 0 && size[1] > 0 && x.size(-2) % size[0] == 0 &&
         x.size(-1) % size[1] == 0;
}
Tensor adaptive_avg_pool(const Tensor& x, IntArrayRef size) {
  if (!divides(size, x)) return fall_back<Tensor>("aten::_adaptive_avg_pool2d", "", x, size);
  return avg_pool(x, {x.size(-2) / size[0], x.size(-1) / size[1]}, {}, {0}, false, true, {});
}
Tensor adaptive_avg_pool_backward(const Tensor& gy, const Tensor& x) {
  const bool fits = plane(gy) && gy.dim() == x.dim() && gy.scalar_type() == x.scalar_type() &&
                    gy.sizes().slice(0, gy.dim() - 2) == x.sizes().slice(0, x.dim() - 2) &&
                    divides(gy.sizes().slice(gy.dim() - 2), x);
  if (!fits) return fall_back<Tensor>("aten::_adaptive_avg_pool2d_backward", "", gy, x);
  return avg_pool_backward(gy, x, {x.size(-2) / gy.size(-2), x.size(-1) / gy.size(-1)}, {}, {0}, false, true, {});
}

// The windows over a dimension as a new last one.
Tensor windows_of(const Tensor& x, int64_t dim, int64_t kernel, int64_t dilation, int64_t stride) {
  return x.unfold(dim, (kernel - 1) * dilation + 1, stride).slice(-1, {}, {}, dilation);
}
// The windows of an image are a view of it, so that this is one copy: [N, C, H, W] to [N, C * window, positions].
Tensor im2col(const Tensor& x, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  auto fits = [&](size_t i) {
    const int64_t size = x.size(static_cast<int64_t>(i) - 2) + 2 * padding[i];
    return kernel[i] > 0 && dilation[i] > 0 && padding[i] >= 0 && stride[i] > 0 && size > (kernel[i] - 1) * dilation[i];
  };
  const bool pairs = kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2;
  if (!pairs || !plane(x) || !fits(0) || !fits(1))
    return fall_back<Tensor>("aten::im2col", "", x, kernel, dilation, padding, stride);
  const Tensor padded = at::constant_pad_nd(x, {padding[1], padding[1], padding[0], padding[0]});
  Tensor y =
      windows_of(windows_of(padded, -2, kernel[0], dilation[0], stride[0]), -2, kernel[1], dilation[1], stride[1]);
  const int64_t window = kernel[0] * kernel[1], positions = y.size(-4) * y.size(-3), channels = y.size(-5);
  y = y.movedim({-2, -1}, {-4, -3});
  return (x.dim() == 3 ? y.reshape({channels * window, positions})
                       : y.reshape({x.size(0), channels * window, positions}))
      .contiguous();
}

// Where no derivative asks for indices, cpu has a kernel that writes row by row.
Tensor max_pool1d(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                  bool ceil) {
  const Tensor y = at::native::max_pool1d(x, kernel, stride, padding, dilation, ceil);
  const bool has_derivative = (x.requires_grad() && at::GradMode::is_enabled()) || x._fw_grad(0).defined();
  return has_derivative ? y : y.contiguous();
}

}  // namespace

void register_max_pool1d(torch::Library& m) { m.impl("max_pool1d", max_pool1d); }

void register_pooling(torch::Library& m) {
  m.impl("max_pool2d_with_indices", max_pool);
  m.impl("max_pool2d_with_indices_backward", max_pool_backward);
  m.impl("avg_pool2d", avg_pool);
  m.impl("avg_pool2d_backward", avg_pool_backward);
  m.impl("_adaptive_avg_pool2d", adaptive_avg_pool);
  m.impl("_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward);
  m.impl("im2col", im2col);
}

}  // namespace lazuli::backend
