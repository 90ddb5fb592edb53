// Composite rows as torch's own operators for them. Dropout, which draws our random numbers, is left to its
// decomposition.
#include <cmath>
#include <ATen/ATen.h>
#include "lazy/rows/torch_rows.h"
#include "lazy/support/convert.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;
using Maybe = std::optional<Tensor>;

Maybe maybe(const Tensor& t) { return t.defined() ? Maybe(t) : Maybe(); }
double number_in(const Tensor& t) { return t.item().toDouble(); }
template <class... T>
Tensors all(const std::tuple<T...>& t) {
  return std::apply([](const auto&... x) { return Tensors{x...}; }, t);
}
std::array<bool, 3> mask(bool weight, bool bias) { return {true, weight, bias}; }
// Cotangents that nobody has asked for are there as zeros: what reads them would read the row's.
Tensors or_zeros(Tensors t, const ir::Node& n) {
  for (size_t i = 0; i < t.size(); ++i)
    if (!t[i].defined()) t[i] = at::zeros(to_ref(n.types[i].shape), t[0].options());
  return t;
}

at::IntArrayRef last_sizes(const Tensor& x, int64_t dims) { return x.sizes().slice(x.dim() - dims); }

// Torch's variance over all dimensions is not quite 0 where all numbers are equal.
Tensor var(const ir::Node& n, const Tensors& in) {
  const Tensor& x = in[0];
  const Tensor y = at::var(x, list_of(n.attrs, 0), in[1].item(), n.attrs.number(1) != 0);
  if (y.numel() != 1 || x.numel() == 0 || !x.is_cpu()) return y;
  const Tensor first = x.as_strided({}, {});
  const double deviation = std::sqrt(number_in(y));
  const bool is_little = deviation > 0 && deviation <= 1e-6 * std::abs(number_in(first));
  return is_little && at::eq(x, first).all().item<bool>() ? at::zeros_like(y) : y;
}

Tensors layer_norm(const ir::Node& n, const Tensors& in) {
  return all(
      at::native_layer_norm(in[0], last_sizes(in[0], n.attrs.number(0)), maybe(in[1]), maybe(in[2]), number_in(in[3])));
}
Tensors layer_norm_backward(const ir::Node& n, const Tensors& in) {
  const auto shape = last_sizes(in[1], n.attrs.number(0));
  // Without a bias its kernel wants no bias's cotangent, which is there as a row of its own.
  const Maybe bias = at::zeros(shape, in[1].options());
  const Maybe weight = in[4].defined() ? in[4] : at::ones(shape, in[1].options());
  const auto stat = [&](const Tensor& t) { return t.to(in[1].scalar_type()); };
  return all(at::native_layer_norm_backward(in[0].contiguous(), in[1].contiguous(), shape, stat(in[2]), stat(in[3]),
                                            weight, bias, mask(true, true)));
}

// Whether torch would multiply weights and statistics out first (decompose_norm.cpp), as it does for dense operands,
// which is less exact, where eager's operand was not dense.
bool folds_unasked(const ir::Node& n, const Tensor& x) {
  return n.attrs.number(0) == 0 && x.is_cpu() && x.is_non_overlapping_and_dense();
}

// In 16 bits torch's kernel rounds the statistics that it normalizes with, where its parameters are in 16 bits or none,
// and updates running ones with what 16 bits may not hold.
Tensor widened(const Tensor& t) {
  return t.defined() && at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t;
}

std::optional<Tensors> batch_norm(const ir::Node& n, const Tensors& in) {
  if (folds_unasked(n, in[0])) return {};
  const Tensor x = widened(in[0]);
  Tensors r =
      all(at::native_batch_norm(x, maybe(widened(in[1])), maybe(widened(in[2])), {}, {}, true, 0.1, number_in(in[3])));
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (d != 1) dims.push_back(d);
  // The mean is that of a sum: the one that comes with a variance is nan where all numbers are the same infinity.
  if (!x.is_same(in[0])) r[1] = x.mean(dims);
  r.push_back(x.var(dims));
  return r;
}
Tensors batch_norm_backward(const ir::Node& n, const Tensors& in) {
  const Maybe weight = in[2].defined() ? in[2] : at::ones({in[1].size(1)}, in[3].options());
  return or_zeros(
      all(at::native_batch_norm_backward(in[0], in[1], weight, {}, {}, in[3], in[4], true, 1e-5, mask(true, true))), n);
}
std::optional<Tensors> batch_norm_inference(const ir::Node& n, const Tensors& in) {
  if (folds_unasked(n, in[0])) return {};
  return Tensors{std::get<0>(at::native_batch_norm(in[0], maybe(in[1]), maybe(in[2]), maybe(in[3]), maybe(in[4]), false,
                                                   0.1, number_in(in[5])))};
}
Tensors batch_norm_inference_backward(const ir::Node& n, const Tensors& in) {
  const Maybe weight = in[2].defined() ? in[2] : at::ones({in[1].size(1)}, in[3].options());
  const Tensor none = at::empty({0}, in[3].options());
  return or_zeros(all(at::native_batch_norm_backward(in[0], in[1], weight, in[3], in[4], none, none, false,
                                                     number_in(in[5]), mask(true, true))),
                  n);
}

struct Groups {
  int64_t n, c, hw, groups;
  Groups(const ir::Node& node, const Tensor& x)
      : n(x.size(0)), c(x.size(1)), hw(n * c != 0 ? x.numel() / (n * c) : 0), groups(node.attrs.number(0)) {}
};
Tensors group_norm(const ir::Node& node, const Tensors& in) {
  const Groups g(node, in[0]);
  return all(at::native_group_norm(in[0].contiguous(), maybe(in[1]), maybe(in[2]), g.n, g.c, g.hw, g.groups,
                                   number_in(in[3])));
}
Tensors group_norm_backward(const ir::Node& node, const Tensors& in) {
  const Groups g(node, in[1]);
  const Maybe weight = in[4].defined() ? in[4] : at::ones({g.c}, in[1].options());
  const auto stat = [&](const Tensor& t) { return t.to(in[1].scalar_type()); };
  return all(at::native_group_norm_backward(in[0].contiguous(), in[1].contiguous(), stat(in[2]), stat(in[3]), weight,
                                            g.n, g.c, g.hw, g.groups, mask(true, true)));
}

std::optional<Tensors> nll_loss(const ir::Node& n, const Tensors& in) {
  const int64_t reduction = n.attrs.number(0), ignored = n.attrs.number(1);
  if (in[0].dim() <= 2) return all(at::nll_loss_forward(in[0], in[1].to(at::kLong), maybe(in[2]), reduction, ignored));
  if (in[0].dim() == 4)
    return all(at::nll_loss2d_forward(in[0], in[1].to(at::kLong), maybe(in[2]), reduction, ignored));
  return {};
}
// Torch does not ask in the backward.
void check_classes(const Tensor& target, int64_t classes, int64_t ignored) {
  const Tensor t = target.masked_fill(target == ignored, 0);
  TORCH_CHECK(t.numel() == 0 || (t.min().item<int64_t>() >= 0 && t.max().item<int64_t>() < classes),
              "Target is out of bounds.");
}

std::optional<Tensors> nll_loss_backward(const ir::Node& n, const Tensors& in) {
  const int64_t reduction = n.attrs.number(0), ignored = n.attrs.number(1);
  const Tensor target = in[2].to(at::kLong), x = in[1].contiguous();
  if (x.dim() > 0) check_classes(target, x.size(x.dim() == 1 ? 0 : 1), ignored);
  if (in[1].dim() <= 2)
    return Tensors{at::nll_loss_backward(in[0], x, target, maybe(in[3]), reduction, ignored, in[4])};
  if (in[1].dim() == 4)
    return Tensors{at::nll_loss2d_backward(in[0], x, target, maybe(in[3]), reduction, ignored, in[4])};
  return {};
}

// Optimizers' steps, for which torch has operators that write over their tensors: their formulas, as torch.optim rounds
// them.
struct OptimizerStep {
  const Tensors& in;
  Tensor skip, gradient;

  OptimizerStep(const Tensors& operands, size_t skips, bool maximize) : in(operands) {
    gradient = maximize ? -wide(1) : wide(1);
    if (has(skips)) skip = in[skips] == 1;
  }
  Tensor wide(size_t i) const { return at::isReducedFloatingType(in[i].scalar_type()) ? in[i].to(at::kFloat) : in[i]; }
  bool has(size_t i) const { return in[i].defined(); }
  Tensor number(size_t i) const { return in[i].to(wide(0).scalar_type()); }
  // What becomes of `old`, unless the step is skipped.
  Tensor result(const Tensor& old, const Tensor& next) const {
    const Tensor t = next.to(old.scalar_type());
    return skip.defined() ? at::where(skip, old, t) : t;
  }
  Tensor result(size_t i, const Tensor& next) const { return result(in[i], next); }
};

Tensors adam_step(const ir::Node& n, const Tensors& in) {
  OptimizerStep s(in, 11, n.attrs.number(1) != 0);
  const Tensor rate = s.number(6), rest1 = s.number(7), rest2 = s.number(8), eps = s.number(10);
  Tensor x = s.wide(0);
  if (s.has(9) && n.attrs.number(0)) x = x * (1 - rate * s.number(9));
  if (s.has(9) && !n.attrs.number(0)) s.gradient = s.gradient + x * s.number(9);
  const Tensor& g = s.gradient;
  const Tensor mean = at::lerp(s.wide(2), g, rest1), square = s.wide(3) * (1 - rest2) + rest2 * g * g;
  const Tensor largest = s.has(4) ? at::maximum(s.wide(4), square) : square;
  const auto correction = [&](const Tensor& rest) { return -at::expm1(s.number(5) * at::log1p(-rest)); };
  const Tensor size = s.has(5) ? rate / correction(rest1) : s.number(12);
  const Tensor root = s.has(5) ? correction(rest2).sqrt() : s.number(13);
  x = x - size * mean / (largest.sqrt() / root + eps);
  Tensors out{s.result(0, x), s.result(2, mean), s.result(3, square)};
  out.push_back(s.has(4) ? s.result(4, largest) : out[2]);
  return out;
}
Tensors sgd_step(const ir::Node& n, const Tensors& in) {
  OptimizerStep s(in, 7, n.attrs.number(1) != 0);
  const Tensor x = s.wide(0);
  if (s.has(6)) s.gradient = s.gradient + x * s.number(6);
  Tensor by = s.gradient, velocity = by;
  if (s.has(2)) velocity = s.wide(2) * s.number(4) + by * s.number(5);
  if (s.has(4)) by = n.attrs.number(0) ? by + velocity * s.number(4) : velocity;
  const Tensor before = s.has(2) ? in[2] : at::zeros_like(in[0]);
  return {s.result(0, x - by * s.number(3)), s.result(before, velocity)};
}
Tensors adagrad_step(const ir::Node& n, const Tensors& in) {
  OptimizerStep s(in, 8, n.attrs.number(0) != 0);
  const Tensor x = s.wide(0);
  if (s.has(6)) s.gradient = s.gradient + x * s.number(6);
  const Tensor rate = s.number(4) / (1 + (s.number(3) - 1) * s.number(5)), sum = s.wide(2) + s.gradient * s.gradient;
  return {s.result(0, x - rate * s.gradient / (sum.sqrt() + s.number(7))), s.result(2, sum)};
}
Tensors quantize_dynamic(const ir::Node& n, const Tensors& in) {
  const auto [scale, zero] = at::_choose_qparams_per_tensor(in[0], n.attrs.number(0) == 127);
  const Tensor bytes = at::quantize_per_tensor(in[0], scale, zero, at::kQUInt8).int_repr();
  const auto options = in[0].options();
  return {bytes.bitwise_xor(128).view(at::kChar), at::scalar_tensor(scale, options),
          at::scalar_tensor(zero - 128, options.dtype(at::kInt))};
}
// As the row is decomposed, in the type that it computes in.
Tensors prod_backward(const ir::Node& n, const Tensors& in) {
  auto folded = in[1].sizes().vec();
  for (const int64_t d : list_of(n.attrs, 0)) folded[d] = 1;
  const bool narrow = at::isReducedFloatingType(in[1].scalar_type());
  const Tensor x = narrow ? in[1].to(at::kFloat) : in[1], gy = in[0].reshape(folded);
  const Tensor is_zero = x == 0, nonzero = x.masked_fill(is_zero, 1);
  Tensor others = nonzero;
  for (const int64_t d : list_of(n.attrs, 0)) others = others.prod(d, true);
  const Tensor counts = is_zero.sum(list_of(n.attrs, 0), true) == is_zero;
  return {at::where(counts, gy * (others / nonzero), 0).to(in[1].scalar_type())};
}

// Complex numbers as rows have them: parts along a last dimension.
Tensor as_complex(const Tensor& parts) { return at::view_as_complex(parts); }
Tensors as_parts(const Tensor& z) { return {at::view_as_real(z)}; }
Tensor complex_operand(const ir::Node& n, const Tensors& in, size_t i) {
  return n.attrs.number(0) >> i & 1 ? in[i] : as_complex(in[i]);
}

bool is_optimizer_step(Op op) { return op == Op::adam_step || op == Op::sgd_step || op == Op::adagrad_step; }

}  // namespace

// Optimizers' steps are many operators here.
bool has_torch_composite(const ir::Node& n) { return !is_optimizer_step(n.op); }

std::optional<Tensors> torch_composite(const ir::Node& n, const Tensors& in) {
  const auto number = [&](size_t i) { return n.attrs.number(i); };
  switch (n.op) {
    case Op::mean:
      if (list_of(n.attrs, 0).empty()) return Tensors{in[0]};
      return Tensors{at::mean(in[0], list_of(n.attrs, 0), number(1) != 0)};
    case Op::var:
      if (list_of(n.attrs, 0).empty()) return {};
      return Tensors{var(n, in)};
    case Op::softmax:
      return Tensors{at::_softmax(in[0], number(0), false)};
    case Op::log_softmax:
      return Tensors{at::_log_softmax(in[0], number(0), false)};
    case Op::softmax_backward:
      return Tensors{at::_softmax_backward_data(in[0], in[1], number(0), in[1].scalar_type())};
    case Op::log_softmax_backward:
      return Tensors{at::_log_softmax_backward_data(in[0], in[1], number(0), in[1].scalar_type())};
    case Op::layer_norm:
      return layer_norm(n, in);
    case Op::layer_norm_backward:
      return layer_norm_backward(n, in);
    case Op::batch_norm:
      return batch_norm(n, in);
    case Op::batch_norm_backward:
      return batch_norm_backward(n, in);
    case Op::batch_norm_inference:
      return batch_norm_inference(n, in);
    case Op::batch_norm_inference_backward:
      return batch_norm_inference_backward(n, in);
    case Op::group_norm:
      return group_norm(n, in);
    case Op::group_norm_backward:
      return group_norm_backward(n, in);
    case Op::nll_loss:
      return nll_loss(n, in);
    case Op::nll_loss_backward:
      return nll_loss_backward(n, in);
    case Op::prod_backward:
      if (list_of(n.attrs, 0).empty()) return Tensors{in[0]};
      return prod_backward(n, in);
    case Op::mse_loss:
      return Tensors{at::mse_loss(in[0], in[1], number(0))};
    case Op::mse_loss_backward:
      return Tensors{at::mse_loss_backward(in[0], in[1], in[2], number(0))};
    case Op::adam_step:
      return adam_step(n, in);
    case Op::sgd_step:
      return sgd_step(n, in);
    case Op::adagrad_step:
      return adagrad_step(n, in);
    case Op::quantize_dynamic:
      return quantize_dynamic(n, in);
    case Op::complex_mul:
      return as_parts(complex_operand(n, in, 0) * complex_operand(n, in, 1));
    case Op::complex_div:
      return as_parts(complex_operand(n, in, 0) / complex_operand(n, in, 1));
    case Op::complex_conj:
      return as_parts(at::conj_physical(as_complex(in[0])));
    case Op::complex_exp:
      return as_parts(at::exp(as_complex(in[0])));
    case Op::complex_sgn:
      return as_parts(at::sgn(as_complex(in[0])));
    case Op::complex_abs:
      return Tensors{at::abs(as_complex(in[0]))};
    case Op::polar:
      return as_parts(at::polar(in[0], in[1]));
    case Op::embedding_backward:
      return Tensors{at::embedding_dense_backward(in[0], in[1].to(at::kLong), number(0), number(1), false)};
    default:
      return {};
  }
}

}  // namespace lazuli::lazy
