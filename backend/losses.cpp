// Losses and pooling: what torch decomposes into one forward and one backward operator each.
#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits_native.h>
#include "backend/registration.h"
#include "backend/dispatch.h"
#include "backend/format.h"
#include "backend/operands.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

bool floating(const Tensor& t) { return is_ours(t) && c10::isFloatingType(t.scalar_type()); }
bool has(const optional<Tensor>& t) { return t && t->defined(); }
Tensor reduced(const Tensor& loss, int64_t reduction) {
  return reduction == at::Reduction::Mean ? loss.mean() : reduction == at::Reduction::Sum ? loss.sum() : loss;
}
ir::Value next(ir::Value v, uint32_t n) { return {v.node, v.result + n}; }

// [N, C] log-probabilities and [N] classes. A class out of range is an error of the kernel that meets it.
bool nll_covered(const Tensor& x, const Tensor& target, const optional<Tensor>& weight) {
  return floating(x) && is_ours(target) && target.scalar_type() == at::kLong && x.dim() == 2 && target.dim() == 1 &&
         target.size(0) == x.size(0) && x.numel() > 0 &&
         (!has(weight) || (floating(*weight) && weight->dim() == 1 && weight->numel() == x.size(1) && weight->scalar_type() == x.scalar_type()));
}

std::tuple<Tensor, Tensor> nll_loss(const Tensor& x, const Tensor& target, const optional<Tensor>& weight, int64_t reduction, int64_t ignore) {
  if (!nll_covered(x, target, weight)) return fall_back_tuple<2>("aten::nll_loss_forward", "", x, target, weight, reduction, ignore);
  lazy::Recording r;
  ir::Value v = r.emit(ir::Op::nll_loss, {r.value(x), r.value(target), has(weight) ? r.value(*weight) : ir::Value{}}, {{reduction}, {ignore}});
  return {r.tensor(v, x.scalar_type()), r.tensor(next(v, 1), x.scalar_type())};
}
Tensor nll_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                         int64_t ignore, const Tensor& total) {
  if (!nll_covered(x, target, weight) || !floating(gy) || !floating(total))
    return fall_back<Tensor>("aten::nll_loss_backward", "", gy, x, target, weight, reduction, ignore, total);
  lazy::Recording r;
  ir::Value v = r.emit(ir::Op::nll_loss_backward,
                       {r.value(gy), r.value(x), r.value(target), has(weight) ? r.value(*weight) : ir::Value{}, r.value(total)},
                       {{reduction}, {ignore}});
  return r.tensor(v, x.scalar_type());
}

bool same_floating(const Tensor& a, const Tensor& b) {
  return floating(a) && floating(b) && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.is_contiguous() && b.is_contiguous();
}
Tensor mse_loss(const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target)) return fall_back<Tensor>("aten::mse_loss", "", x, target, reduction);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::mse_loss, {r.value(x), r.value(target)}, {{reduction}}), x.scalar_type());
}
Tensor mse_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target) || !floating(gy)) return fall_back<Tensor>("aten::mse_loss_backward", "", gy, x, target, reduction);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::mse_loss_backward, {r.value(gy), r.value(x), r.value(target)}, {{reduction}}), x.scalar_type());
}
// Torch's formula, (1 - t) x - w log_sigmoid(x), is a difference of infinities where x is one. So positive and negative x take
// what is left of it: a multiple of x, which counts for nothing where its factor is zero, and a part that vanishes.
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const optional<Tensor>& weight, const optional<Tensor>& pos_weight,
                       int64_t reduction) {
  if (!c10::isFloatingType(x.scalar_type()) || target.scalar_type() != x.scalar_type())
    return at::native::binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction);
  const Tensor above = 1 - target, below = has(pos_weight) ? *pos_weight * target : target;
  const Tensor slope = at::where(x > 0, above, -below);
  const Tensor line = at::where(slope == 0, 0, slope * x);
  const Tensor tail = at::log_sigmoid(x.abs());
  Tensor loss = line - (has(pos_weight) ? (above + below) * tail : tail);
  if (has(weight)) loss = loss * *weight;
  return reduced(loss, reduction);
}

// log(1 + exp(-t x)), whose exponential overflows where log_sigmoid is -t x; and its slope, -t sigmoid(-t x).
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!floating(x) || !floating(target)) return fall_back<Tensor>("aten::soft_margin_loss", "", x, target, reduction);
  const Tensor loss = -at::log_sigmoid(target * x);
  return reduced(loss, reduction);
}
Tensor soft_margin_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!floating(gy) || !floating(x) || !floating(target))
    return fall_back<Tensor>("aten::soft_margin_loss_backward", "", gy, x, target, reduction);
  const Tensor slope = -target * at::sigmoid(-target * x) * gy;
  return reduction == at::Reduction::Mean ? slope / x.numel() : slope;
}

// Where the curve has no width it is l1_loss, which is eager's to say.
bool curved(const Tensor& x, const Tensor& target, double beta) { return same_floating(x, target) && x.numel() > 0 && beta > 0; }
ir::Value widened(lazy::Recording& r, const Tensor& t) { return r.convert(r.value(t), ir::compute_type(lazy::to_ir(t.scalar_type()))); }

// The difference d of the operands, and the loss's slope there, which is held between -1 and 1.
struct Curve {
  ir::Value d, width, slope;
};
Curve curve(lazy::Recording& r, const Tensor& x, const Tensor& target, double beta) {
  ir::Value d = r.sub(widened(r, x), widened(r, target)), width = r.number(beta, r.dtype(d));
  return {d, width, r.emit(ir::Op::clamp, {r.div(d, width), r.constant(-1, r.dtype(d)), r.constant(1, r.dtype(d))})};
}

// d * d / (2 * beta) below beta, |d| - beta / 2 from there on.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, int64_t reduction, double beta) {
  if (!curved(x, target, beta)) return fall_back<Tensor>("aten::smooth_l1_loss", "", x, target, reduction, beta);
  lazy::Recording r;
  const Curve c = curve(r, x, target, beta);
  ir::Value loss = r.mul(c.slope, r.sub(c.d, r.mul(r.mul(c.slope, c.width), 0.5)));
  ir::Dims every;
  for (int64_t i = 0; i < x.dim(); ++i) every.push_back(i);
  if (reduction == at::Reduction::Mean) loss = r.mean(loss, every, false);
  if (reduction == at::Reduction::Sum) loss = r.sum(loss, every, false);
  return r.tensor(r.convert(loss, lazy::to_ir(x.scalar_type())), x.scalar_type());
}
Tensor smooth_l1_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction, double beta) {
  if (!curved(x, target, beta) || !floating(gy))
    return fall_back<Tensor>("aten::smooth_l1_loss_backward", "", gy, x, target, reduction, beta);
  lazy::Recording r;
  ir::Value slope = curve(r, x, target, beta).slope;
  if (reduction == at::Reduction::Mean) slope = r.mul(slope, 1.0 / static_cast<double>(x.numel()));
  return r.tensor(r.convert(r.mul(slope, r.convert(r.value(gy), r.dtype(slope))), lazy::to_ir(x.scalar_type())), x.scalar_type());
}

// ---- Pooling. Torch lets one number stand for both dimensions, and no stride for the kernel's.
ir::Dims both(IntArrayRef v, IntArrayRef otherwise = {}) {
  if (v.empty()) v = otherwise;
  return v.size() == 1 ? ir::Dims{v[0], v[0]} : lazy::to_dims(v);
}
bool plane(const Tensor& x) { return floating(x) && (x.dim() == 4 || x.dim() == 3) && x.numel() > 0; }

std::tuple<Tensor, Tensor> max_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil) {
  if (!plane(x)) return fall_back_tuple<2>("aten::max_pool2d_with_indices", "", x, kernel, stride, padding, dilation, ceil);
  ir::Attrs attrs;
  attrs.add(both(kernel)).add(both(stride, kernel)).add(both(padding)).add(both(dilation)).add(ceil);
  lazy::Order order = format_order(x);
  lazy::Recording r;
  ir::Value v = r.emit(ir::Op::max_pool2d, {r.value(x)}, attrs);
  return {tensor_in(r, v, x.scalar_type(), order), tensor_in(r, next(v, 1), at::kLong, order)};
}
Tensor max_pool_backward(const Tensor& gy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                         bool ceil, const Tensor& indices) {
  if (!plane(x) || !plane(gy) || !is_ours(indices))
    return fall_back<Tensor>("aten::max_pool2d_with_indices_backward", "", gy, x, kernel, stride, padding, dilation, ceil, indices);
  ir::Attrs attrs;
  attrs.add(lazy::to_dims(x.sizes()));
  lazy::Recording r;
  return tensor_in(r, r.emit(ir::Op::max_pool2d_grad, {r.value(gy), r.value(indices)}, attrs), x.scalar_type(), format_order(x));
}

ir::Attrs average(IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil, bool count_pad, optional<int64_t> divisor) {
  ir::Attrs attrs;
  return attrs.add(both(kernel)).add(both(stride, kernel)).add(both(padding)).add(ceil).add(count_pad).add(divisor.value_or(0));
}
Tensor avg_pool(const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil, bool count_pad, optional<int64_t> divisor) {
  if (!plane(x) || (divisor && *divisor == 0))
    return fall_back<Tensor>("aten::avg_pool2d", "", x, kernel, stride, padding, ceil, count_pad, divisor);
  lazy::Recording r;
  return tensor_in(r, r.emit(ir::Op::avg_pool2d, {r.value(x)}, average(kernel, stride, padding, ceil, count_pad, divisor)), x.scalar_type(), format_order(x));
}
Tensor avg_pool_backward(const Tensor& gy, const Tensor& x, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil,
                         bool count_pad, optional<int64_t> divisor) {
  if (!plane(x) || !plane(gy) || (divisor && *divisor == 0))
    return fall_back<Tensor>("aten::avg_pool2d_backward", "", gy, x, kernel, stride, padding, ceil, count_pad, divisor);
  lazy::Recording r;
  ir::Attrs attrs = average(kernel, stride, padding, ceil, count_pad, divisor).add(lazy::to_dims(x.sizes()));
  return tensor_in(r, r.emit(ir::Op::avg_pool2d_grad, {r.value(gy)}, attrs), x.scalar_type(), format_order(x));
}

}  // namespace

void register_losses(torch::Library& m) {
  m.impl("nll_loss_forward", nll_loss);
  m.impl("nll_loss_backward", nll_loss_backward);
  m.impl("binary_cross_entropy_with_logits", bce_with_logits);
  m.impl("mse_loss", mse_loss);
  m.impl("mse_loss_backward", mse_loss_backward);
  m.impl("soft_margin_loss", soft_margin_loss);
  m.impl("soft_margin_loss_backward", soft_margin_loss_backward);
  m.impl("smooth_l1_loss", smooth_l1_loss);
  m.impl("smooth_l1_loss_backward", smooth_l1_loss_backward);
  m.impl("max_pool2d_with_indices", max_pool);
  m.impl("max_pool2d_with_indices_backward", max_pool_backward);
  m.impl("avg_pool2d", avg_pool);
  m.impl("avg_pool2d_backward", avg_pool_backward);
}

}  // namespace lazuli::backend
