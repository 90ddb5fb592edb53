// Losses: what torch decomposes into one forward and one backward operator each.
#include <cmath>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/core/Reduction.h>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "backend/record/requirements.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Tensor;
using std::optional;

Tensor reduced(const Tensor& loss, int64_t reduction) {
  return reduction == at::Reduction::Mean ? loss.mean() : reduction == at::Reduction::Sum ? loss.sum() : loss;
}

// [N, C] log-probabilities and [N] classes, or [N, C, H, W] and [N, H, W]: `Image`. A class out of range is an error of
// the kernel that meets it.
template <bool Image>
bool nll_covered(const Tensor& x, const Tensor& target, const optional<Tensor>& weight) {
  if (!is_floating(x) || !is_ours(target) || target.scalar_type() != at::kLong || x.numel() == 0) return false;
  if (x.dim() != (Image ? 4 : 2) || target.dim() != x.dim() - 1 || target.size(0) != x.size(0) ||
      target.sizes().slice(1) != x.sizes().slice(2))
    return false;
  return !has(weight) || (is_floating(*weight) && weight->dim() == 1 && weight->numel() == x.size(1) &&
                          weight->scalar_type() == x.scalar_type());
}

template <bool Image>
std::tuple<Tensor, Tensor> nll_loss(const Tensor& x, const Tensor& target, const optional<Tensor>& weight,
                                    int64_t reduction, int64_t ignore) {
  if (!nll_covered<Image>(x, target, weight))
    return fall_back_tuple<2>(Image ? "aten::nll_loss2d_forward" : "aten::nll_loss_forward", "", x, target, weight,
                              reduction, ignore);
  lazy::Recording r;
  ir::Value v = r.emit(ir::Op::nll_loss, {r.value(x), r.value(target), has(weight) ? r.value(*weight) : ir::Value{}},
                       {{reduction}, {ignore}});
  return {r.tensor(v, x.scalar_type()), r.tensor(v.next(), x.scalar_type())};
}
template <bool Image>
Tensor nll_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, const optional<Tensor>& weight,
                         int64_t reduction, int64_t ignore, const Tensor& total) {
  if (!nll_covered<Image>(x, target, weight) || !is_floating(gy) || !is_floating(total))
    return fall_back<Tensor>(Image ? "aten::nll_loss2d_backward" : "aten::nll_loss_backward", "", gy, x, target, weight,
                             reduction, ignore, total);
  lazy::Recording r;
  ir::Value v =
      r.emit(ir::Op::nll_loss_backward,
             {r.value(gy), r.value(x), r.value(target), has(weight) ? r.value(*weight) : ir::Value{}, r.value(total)},
             {{reduction}, {ignore}});
  return tensor_in(r, v, x.scalar_type(), format_order(x));
}

bool same_floating(const Tensor& a, const Tensor& b) {
  return is_floating(a) && is_floating(b) && a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes();
}
// How eager lays out a loss of two operands, or one that it makes as empty_like(x); its gradient is row-major.
lazy::Order loss_order(const Tensor& x, const Tensor& target) {
  return result_order({{&x, {}}, {&target, {}}}, lazy::to_dims(x.sizes()));
}
lazy::Order order_like(const Tensor& x) { return result_order({{&x, {}}}, lazy::to_dims(x.sizes())); }
Tensor laid_out(lazy::Recording& r, ir::Value loss, const Tensor& x, int64_t reduction, const lazy::Order& order) {
  return r.tensor(loss, x.scalar_type(), reduction == at::Reduction::None ? order : lazy::Order{});
}

Tensor mse_loss(const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target)) return fall_back<Tensor>("aten::mse_loss", "", x, target, reduction);
  lazy::Recording r;
  const lazy::Order order = loss_order(x, target);
  const ir::DType type = lazy::to_ir(x.scalar_type());
  return laid_out(
      r, r.emit(ir::Op::mse_loss, {read(r, {&x, {}}, type, order), read(r, {&target, {}}, type, order)}, {{reduction}}),
      x, reduction, order);
}
Tensor mse_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target) || !is_floating(gy))
    return fall_back<Tensor>("aten::mse_loss_backward", "", gy, x, target, reduction);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::mse_loss_backward, {r.value(gy), r.value(x), r.value(target)}, {{reduction}}),
                  x.scalar_type());
}

// Logarithms count for no less than -100, and the slope's denominator for no less than 1e-12. What is in 16 bits is
// rounded once.
bool bce_covered(const Tensor& x, const Tensor& target, const optional<Tensor>& weight) {
  return is_floating(x) && is_floating(target) && x.scalar_type() == target.scalar_type() &&
         x.sizes() == target.sizes() && x.numel() > 0 &&
         (!has(weight) || (is_floating(*weight) && at::is_expandable_to(weight->sizes(), x.sizes())));
}
Tensor bce_loss(const Tensor& x, const Tensor& target, const optional<Tensor>& weight, int64_t reduction) {
  if (!bce_covered(x, target, weight))
    return fall_back<Tensor>("aten::binary_cross_entropy", "", x, target, weight, reduction);
  const auto wide = at::toOpMathType(x.scalar_type());
  const auto probabilities = [&](const Tensor& p, ir::Requirement what) {
    return required(p, (p >= 0).logical_and_(p <= 1), what).to(wide);
  };
  const Tensor p = probabilities(x, ir::Requirement::Input), t = probabilities(target, ir::Requirement::Target);
  Tensor loss = (t - 1) * at::log1p(-p).clamp_min(-100) - t * at::log(p).clamp_min(-100);
  if (has(weight)) loss = loss * *weight;
  const Tensor result = reduced(loss, reduction).to(x.scalar_type());
  lazy::Recording r;
  const lazy::Order order = reduction == at::Reduction::None ? order_like(x) : lazy::Order{};
  return laid_out(r, read(r, {&result, {}}, lazy::to_ir(x.scalar_type()), order), x, reduction, order);
}
Tensor bce_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, const optional<Tensor>& weight,
                         int64_t reduction) {
  if (!bce_covered(x, target, weight) || !is_floating(gy))
    return fall_back<Tensor>("aten::binary_cross_entropy_backward", "", gy, x, target, weight, reduction);
  const auto wide = at::toOpMathType(x.scalar_type());
  const Tensor p = x.to(wide);
  Tensor slope = gy.to(wide) * (p - target.to(wide)) / ((1 - p) * p).clamp_min(1e-12);
  if (has(weight)) slope = slope * *weight;
  return (reduction == at::Reduction::Mean ? slope / x.numel() : slope).to(x.scalar_type());
}

// log(1 + exp(-t x)), whose exponential overflows where log_sigmoid is -t x; and its slope, -t sigmoid(-t x). What is
// in 16 bits is rounded once.
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target)) return fall_back<Tensor>("aten::soft_margin_loss", "", x, target, reduction);
  const auto wide = at::toOpMathType(x.scalar_type());
  const Tensor loss = reduced(-at::log_sigmoid(x.to(wide) * target.to(wide)), reduction).to(x.scalar_type());
  lazy::Recording r;
  const lazy::Order order = reduction == at::Reduction::None ? order_like(x) : lazy::Order{};
  return laid_out(r, read(r, {&loss, {}}, lazy::to_ir(x.scalar_type()), order), x, reduction, order);
}
Tensor soft_margin_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction) {
  if (!same_floating(x, target) || !is_floating(gy))
    return fall_back<Tensor>("aten::soft_margin_loss_backward", "", gy, x, target, reduction);
  const auto type = x.scalar_type(), wide = at::toOpMathType(type);
  const Tensor slope = -target.to(wide) * at::sigmoid(-x.to(wide) * target.to(wide)) * gy.to(wide);
  return (reduction == at::Reduction::Mean ? slope / x.numel() : slope).to(type);
}

// Where the curve has no width it is l1_loss, and where it has no end a square: both are eager's to say.
bool curved(const Tensor& x, const Tensor& target, double beta) {
  return same_floating(x, target) && x.numel() > 0 && beta > 0 && std::isfinite(beta);
}
ir::Value widened(lazy::Recording& r, const Tensor& t, const lazy::Order& order) {
  return read(r, {&t, {}}, ir::compute_type(lazy::to_ir(t.scalar_type())), order);
}

// The difference d of the operands, and the loss's slope there, which is held between -1 and 1.
struct Curve {
  ir::Value d, width, slope;
};
Curve curve(lazy::Recording& r, const Tensor& x, const Tensor& target, double beta, const lazy::Order& order) {
  ir::Value d = r.sub(widened(r, x, order), widened(r, target, order)), width = r.number(beta, r.dtype(d));
  return {d, width, r.emit(ir::Op::clamp, {r.div(d, width), r.constant(-1, r.dtype(d)), r.constant(1, r.dtype(d))})};
}

// d * d / (2 * beta) below beta, |d| - beta / 2 from there on; `factor` times that.
Tensor curved_loss(const Tensor& x, const Tensor& target, int64_t reduction, double beta, double factor,
                   const lazy::Order& order) {
  lazy::Recording r;
  const Curve c = curve(r, x, target, beta, order);
  ir::Value loss = r.mul(c.slope, r.sub(c.d, r.mul(r.mul(c.slope, c.width), 0.5)));
  if (factor != 1) loss = r.mul(loss, r.number(factor, r.dtype(loss)));
  ir::Dims every;
  for (int64_t i = 0; i < x.dim(); ++i) every.push_back(i);
  if (reduction == at::Reduction::Mean) loss = r.mean(loss, every, false);
  if (reduction == at::Reduction::Sum) loss = r.sum(loss, every, false);
  return laid_out(r, r.convert(loss, lazy::to_ir(x.scalar_type())), x, reduction, order);
}
Tensor curved_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction, double beta,
                            double factor) {
  lazy::Recording r;
  ir::Value slope = curve(r, x, target, beta, {}).slope;
  if (factor != 1) slope = r.mul(slope, r.number(factor, r.dtype(slope)));
  if (reduction == at::Reduction::Mean) slope = r.mul(slope, 1.0 / static_cast<double>(x.numel()));
  return r.tensor(r.convert(r.mul(slope, r.convert(r.value(gy), r.dtype(slope))), lazy::to_ir(x.scalar_type())),
                  x.scalar_type());
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, int64_t reduction, double beta) {
  if (!curved(x, target, beta)) return fall_back<Tensor>("aten::smooth_l1_loss", "", x, target, reduction, beta);
  return curved_loss(x, target, reduction, beta, 1, loss_order(x, target));
}
Tensor smooth_l1_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction,
                               double beta) {
  if (!curved(x, target, beta) || !is_floating(gy))
    return fall_back<Tensor>("aten::smooth_l1_loss_backward", "", gy, x, target, reduction, beta);
  return curved_loss_backward(gy, x, target, reduction, beta, 1);
}
Tensor huber_loss(const Tensor& x, const Tensor& target, int64_t reduction, double delta) {
  if (!curved(x, target, delta)) return fall_back<Tensor>("aten::huber_loss", "", x, target, reduction, delta);
  return curved_loss(x, target, reduction, delta, delta, order_like(x));
}
Tensor huber_loss_backward(const Tensor& gy, const Tensor& x, const Tensor& target, int64_t reduction, double delta) {
  if (!curved(x, target, delta) || !is_floating(gy))
    return fall_back<Tensor>("aten::huber_loss_backward", "", gy, x, target, reduction, delta);
  return curved_loss_backward(gy, x, target, reduction, delta, delta);
}

}  // namespace

void register_losses(torch::Library& m) {
  m.impl("nll_loss_forward", nll_loss<false>);
  m.impl("nll_loss_backward", nll_loss_backward<false>);
  m.impl("nll_loss2d_forward", nll_loss<true>);
  m.impl("nll_loss2d_backward", nll_loss_backward<true>);
  m.impl("binary_cross_entropy", bce_loss);
  m.impl("binary_cross_entropy_backward", bce_loss_backward);
  m.impl("huber_loss", huber_loss);
  m.impl("huber_loss_backward", huber_loss_backward);
  m.impl("mse_loss", mse_loss);
  m.impl("mse_loss_backward", mse_loss_backward);
  m.impl("soft_margin_loss", soft_margin_loss);
  m.impl("soft_margin_loss_backward", soft_margin_loss_backward);
  m.impl("smooth_l1_loss", smooth_l1_loss);
  m.impl("smooth_l1_loss_backward", smooth_l1_loss_backward);
}

}  // namespace lazuli::backend
