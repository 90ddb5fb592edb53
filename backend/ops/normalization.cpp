// Softmax and the normalizations, forward and backward.
#include <ATen/WrapDimUtils.h>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

bool absent_or_ours(const optional<Tensor>& t) { return !has(t) || is_floating(*t); }
ir::Value read(lazy::Recording& r, const optional<Tensor>& t) { return has(t) ? r.value(*t) : ir::Value{}; }
ir::Value read_as(lazy::Recording& r, const optional<Tensor>& t, ir::DType type) {
  return has(t) ? r.convert(r.value(*t), type) : ir::Value{};
}

template <ir::Op op, ir::Op backward_op>
struct Softmax {
  static constexpr bool logarithm = op == ir::Op::log_softmax;
  static constexpr const char* name = logarithm ? "aten::_log_softmax" : "aten::_softmax";
  static constexpr const char* backward_name =
      logarithm ? "aten::_log_softmax_backward_data" : "aten::_softmax_backward_data";

  static ir::Value along(lazy::Recording& r, ir::Op row, std::initializer_list<ir::Value> in, int64_t dim,
                         int64_t rank) {
    if (rank) return r.emit(row, in, {{dim}});
    std::vector<ir::Value> flat;
    for (ir::Value v : in) flat.push_back(r.reshape(v, ir::Dims{1}));
    return r.reshape(r.emit(row, flat, {{0}}, {}), ir::Dims{});
  }
  static Tensor forward(const Tensor& x, int64_t dim, bool half_to_float) {
    if (!is_floating(x) || half_to_float) return fall_back<Tensor>(name, "", x, dim, half_to_float);
    // Backward reads what is reshaped, not what is returned.
    if (x.dim() == 0 && lazy::Tape::current()) throw NotTaped{};
    dim = at::maybe_wrap_dim(dim, x.dim());
    lazy::Recording r;
    return r.tensor(along(r, op, {r.value(x)}, dim, x.dim()), x.scalar_type());
  }
  static Tensor backward(const Tensor& gy, const Tensor& y, int64_t dim, at::ScalarType type) {
    if (!is_floating(gy) || !is_floating(y) || type != gy.scalar_type() || gy.scalar_type() != y.scalar_type() ||
        gy.sizes() != y.sizes())
      return fall_back<Tensor>(backward_name, "", gy, y, dim, type);
    dim = at::maybe_wrap_dim(dim, y.dim());
    lazy::Recording r;
    return r.tensor(along(r, backward_op, {r.value(gy), r.value(y)}, dim, y.dim()), type);
  }
};

using Parameters = std::initializer_list<const optional<Tensor>*>;

// Whether all have x's type, or float32 where x has 16 bits: then each is read as it is.
bool types_agree(const Tensor& x, Parameters parameters) {
  const auto all = [&](at::ScalarType type) {
    return std::ranges::all_of(parameters, [&](auto* t) { return !has(*t) || (**t).scalar_type() == type; });
  };
  return all(x.scalar_type()) || (c10::isReducedFloatingType(x.scalar_type()) && all(at::kFloat));
}

// The same of a weight and a bias. Eager refuses a bias of another type that stands alone.
bool affine_agrees(const Tensor& x, const optional<Tensor>& weight, const optional<Tensor>& bias) {
  if (!has(weight) && has(bias)) return bias->scalar_type() == x.scalar_type();
  return types_agree(x, {&weight, &bias});
}

// Statistics are returned in the compute type, as on CUDA; torch's kernels for the CPU give them in x's type, unless
// some parameter is wider.
Tensor statistic(lazy::Recording& r, ir::Value v, const Tensor& x, Parameters parameters) {
  at::ScalarType type = lazy::to_torch(r.dtype(v));
  auto wider = [&](const optional<Tensor>* p) { return has(*p) && (*p)->scalar_type() != x.scalar_type(); };
  if (lazy::backing().has_host_kernels && std::ranges::none_of(parameters, wider)) type = x.scalar_type();
  return r.tensor(r.convert(v, lazy::to_ir(type)), type);
}

std::tuple<Tensor, Tensor, Tensor> layer_norm(const Tensor& x, at::IntArrayRef shape, const optional<Tensor>& w,
                                              const optional<Tensor>& b, double eps) {
  bool fits = is_floating(x) && absent_or_ours(w) && absent_or_ours(b) && !shape.empty() &&
              x.dim() >= static_cast<int64_t>(shape.size()) && x.sizes().slice(x.dim() - shape.size()) == shape &&
              x.numel() > 0;
  fits = fits && affine_agrees(x, w, b);
  for (auto* t : {&w, &b}) fits = fits && (!has(*t) || (**t).sizes() == shape);
  if (!fits) return fall_back_tuple<3>("aten::native_layer_norm", "", x, shape, w, b, eps);
  lazy::Recording r;
  ir::DType t = lazy::to_ir(x.scalar_type());
  ir::Value y = r.emit(ir::Op::layer_norm, {r.value(x), read(r, w), read(r, b), r.number(eps, ir::compute_type(t))},
                       {{static_cast<int64_t>(shape.size())}});
  return {r.tensor(y, x.scalar_type()), statistic(r, y.next(), x, {&w, &b}), statistic(r, y.next(2), x, {&w, &b})};
}

// The gradients of x, weight and bias that are asked for; those of parameters in their own types.
std::tuple<Tensor, Tensor, Tensor> gradients(lazy::Recording& r, ir::Value g, const Tensor& x,
                                             const optional<Tensor>& w, const lazy::Order& order,
                                             const std::array<bool, 3>& mask) {
  const at::ScalarType parameter = has(w) ? w->scalar_type() : x.scalar_type();
  Tensor out[3];
  if (mask[0]) out[0] = tensor_in(r, g, x.scalar_type(), order);
  for (uint32_t i = 1; i < 3; ++i)
    if (mask[i]) out[i] = r.tensor(r.convert(g.next(i), lazy::to_ir(parameter)), parameter);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(const Tensor& gy, const Tensor& x, at::IntArrayRef shape,
                                                       const Tensor& mean, const Tensor& rstd,
                                                       const optional<Tensor>& w, const optional<Tensor>& b,
                                                       std::array<bool, 3> mask) {
  bool fits = is_floating(gy) && is_floating(x) && is_floating(mean) && is_floating(rstd) && absent_or_ours(w) &&
              x.numel() > 0 && gy.scalar_type() == x.scalar_type();
  fits = fits && affine_agrees(x, w, b);
  if (!fits) return fall_back_tuple<3>("aten::native_layer_norm_backward", "", gy, x, shape, mean, rstd, w, b, mask);
  const ir::DType c = ir::compute_type(lazy::to_ir(x.scalar_type()));
  lazy::Recording r;
  ir::Value g = r.emit(ir::Op::layer_norm_backward,
                       {r.value(gy), r.value(x), read_as(r, mean, c), read_as(r, rstd, c), read(r, w)},
                       {{static_cast<int64_t>(shape.size())}});
  return gradients(r, g, x, w, {}, mask);
}

bool channels_fit(const Tensor& x, Parameters parameters) {
  for (auto* t : parameters)
    if (has(*t) && (!is_floating(**t) || (**t).dim() != 1 || (**t).numel() != x.size(1))) return false;
  return true;
}

// Whether they have the types that eager's kernels take beside x's. On the host these are x's own, or float32 of all
// where x has 16 bits.
bool types_fit(const Tensor& x, Parameters parameters) {
  return !lazy::backing().has_host_kernels || types_agree(x, parameters);
}

// Whether weights and statistics are multiplied out first: eager's kernels for the CPU do so for dense operands, and no
// others.
bool folds(const Tensor& x) {
  return lazy::backing().has_host_kernels && (x.is_contiguous() || x.is_contiguous(c10::MemoryFormat::ChannelsLast) ||
                                              x.is_contiguous(c10::MemoryFormat::ChannelsLast3d));
}

// running = (1 - momentum) * running + momentum * batch, rounded at the end: 16 bits may hold that, and not the
// batch's.
void update_running(lazy::Recording& r, const Tensor& running, ir::Value batch, double momentum) {
  const ir::DType t = lazy::to_ir(running.scalar_type()), wide = ir::compute_type(t);
  const ir::Value old = r.convert(r.value(running), wide);
  const ir::Value sum =
      r.add(r.mul(old, r.number(1 - momentum, wide)), r.mul(r.convert(batch, wide), r.number(momentum, wide)));
  r.write(running, r.convert(sum, t));
}

std::tuple<Tensor, Tensor, Tensor> batch_norm(const Tensor& x, const optional<Tensor>& w, const optional<Tensor>& b,
                                              const optional<Tensor>& running_mean, const optional<Tensor>& running_var,
                                              bool training, double momentum, double eps) {
  bool fits =
      is_floating(x) && x.dim() >= 2 && x.numel() > 0 && channels_fit(x, {&w, &b, &running_mean, &running_var}) &&
      types_fit(x, {&w, &b, &running_mean, &running_var}) && (training || (has(running_mean) && has(running_var)));
  if (!fits)
    return fall_back_tuple<3>("aten::native_batch_norm", "", x, w, b, running_mean, running_var, training, momentum,
                              eps);
  lazy::Order order = format_order(x);
  at::ScalarType type = x.scalar_type();
  ir::DType t = lazy::to_ir(type), c = ir::compute_type(t);
  lazy::Recording r;
  ir::Value e = r.number(eps, c);
  if (!training) {
    ir::Value y = r.emit(
        ir::Op::batch_norm_inference,
        {r.value(x), read_as(r, w, t), read_as(r, b, t), read_as(r, running_mean, c), read_as(r, running_var, c), e},
        {{folds(x)}});
    Tensor none = r.tensor(r.full(ir::Dims{0}, 0, t), type);
    return {tensor_in(r, y, type, order), none, r.tensor(r.full(ir::Dims{0}, 0, t), type)};
  }
  ir::Value y = r.emit(ir::Op::batch_norm, {r.value(x), read_as(r, w, t), read_as(r, b, t), e}, {{folds(x)}});
  if (has(running_mean)) update_running(r, *running_mean, y.next(), momentum);
  if (has(running_var)) update_running(r, *running_var, y.next(3), momentum);
  const std::initializer_list<const optional<Tensor>*> parameters = {&w, &b, &running_mean, &running_var};
  return {tensor_in(r, y, type, order), statistic(r, y.next(), x, parameters), statistic(r, y.next(2), x, parameters)};
}

// What torch.compile's graphs have in place of it.
std::tuple<Tensor, Tensor, Tensor> batch_norm_legit(const Tensor& x, const optional<Tensor>& w,
                                                    const optional<Tensor>& b, Tensor& running_mean,
                                                    Tensor& running_var, bool training, double momentum, double eps) {
  return batch_norm(x, w, b, running_mean, running_var, training, momentum, eps);
}
std::tuple<Tensor, Tensor, Tensor> batch_norm_no_stats(const Tensor& x, const optional<Tensor>& w,
                                                       const optional<Tensor>& b, bool training, double momentum,
                                                       double eps) {
  return batch_norm(x, w, b, {}, {}, training, momentum, eps);
}

// Torch's composite calls its kernel for the host. The fourth result is room for libraries of a GPU.
std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_no_update(const Tensor& x, const optional<Tensor>& w,
                                                                const optional<Tensor>& b,
                                                                const optional<Tensor>& running_mean,
                                                                const optional<Tensor>& running_var, double momentum,
                                                                double eps) {
  auto [y, mean, invstd] = batch_norm(x, w, b, running_mean, running_var, false, momentum, eps);
  return {y, mean, invstd, at::empty({0}, x.options().dtype(at::kByte))};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor& gy, const Tensor& x, const optional<Tensor>& w,
                                                       const optional<Tensor>& running_mean,
                                                       const optional<Tensor>& running_var,
                                                       const optional<Tensor>& mean, const optional<Tensor>& invstd,
                                                       bool training, double eps, std::array<bool, 3> mask) {
  bool fits = is_floating(gy) && is_floating(x) && gy.scalar_type() == x.scalar_type() && x.numel() > 0 &&
              channels_fit(x, {&w, &running_mean, &running_var}) &&
              (training ? has(mean) && has(invstd) && is_floating(*mean) : has(running_mean));
  if (!fits)
    return fall_back_tuple<3>("aten::native_batch_norm_backward", "", gy, x, w, running_mean, running_var, mean, invstd,
                              training, eps, mask);
  lazy::Order order = format_order(x);
  at::ScalarType type = x.scalar_type();
  ir::DType t = lazy::to_ir(type), c = ir::compute_type(t);
  lazy::Recording r;
  ir::Value g =
      training ? r.emit(ir::Op::batch_norm_backward,
                        {r.value(gy), r.value(x), read_as(r, w, t), read_as(r, mean, c), read_as(r, invstd, c)}, {{0}})
               : r.emit(ir::Op::batch_norm_inference_backward,
                        {r.value(gy), r.value(x), read_as(r, w, t), read_as(r, running_mean, c),
                         read_as(r, running_var, c), r.number(eps, c)},
                        {{0}});
  return gradients(r, g, x, w, order, mask);
}

std::tuple<Tensor, Tensor, Tensor> group_norm(const Tensor& x, const optional<Tensor>& w, const optional<Tensor>& b,
                                              int64_t n, int64_t c, int64_t hw, int64_t groups, double eps) {
  const bool fits =
      is_floating(x) && x.dim() >= 2 && x.numel() > 0 && channels_fit(x, {&w, &b}) && affine_agrees(x, w, b);
  if (!fits) return fall_back_tuple<3>("aten::native_group_norm", "", x, w, b, n, c, hw, groups, eps);
  lazy::Order order = format_order(x);
  lazy::Recording r;
  ir::Value y =
      r.emit(ir::Op::group_norm,
             {r.value(x), read(r, w), read(r, b), r.number(eps, ir::compute_type(lazy::to_ir(x.scalar_type())))},
             {{groups}, {folds(x)}});
  return {tensor_in(r, y, x.scalar_type(), order), statistic(r, y.next(), x, {&w, &b}),
          statistic(r, y.next(2), x, {&w, &b})};
}

std::tuple<Tensor, Tensor, Tensor> group_norm_backward(const Tensor& gy, const Tensor& x, const Tensor& mean,
                                                       const Tensor& rstd, const optional<Tensor>& w, int64_t n,
                                                       int64_t c, int64_t hw, int64_t groups,
                                                       std::array<bool, 3> mask) {
  bool fits = is_floating(gy) && is_floating(x) && is_floating(mean) && absent_or_ours(w) && x.numel() > 0 &&
              gy.scalar_type() == x.scalar_type() && types_agree(x, {&w});
  if (!fits)
    return fall_back_tuple<3>("aten::native_group_norm_backward", "", gy, x, mean, rstd, w, n, c, hw, groups, mask);
  const ir::DType type = ir::compute_type(lazy::to_ir(x.scalar_type()));
  lazy::Recording r;
  ir::Value g =
      r.emit(ir::Op::group_norm_backward,
             {r.value(gy), r.value(x), read_as(r, mean, type), read_as(r, rstd, type), read(r, w)}, {{groups}, {0}});
  return gradients(r, g, x, w, format_order(x), mask);
}

}  // namespace

void register_normalization(torch::Library& m) {
  using S = Softmax<ir::Op::softmax, ir::Op::softmax_backward>;
  using L = Softmax<ir::Op::log_softmax, ir::Op::log_softmax_backward>;
  m.impl("_softmax", S::forward);
  m.impl("_softmax_backward_data", S::backward);
  m.impl("_log_softmax", L::forward);
  m.impl("_log_softmax_backward_data", L::backward);
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  m.impl("native_batch_norm", batch_norm);
  m.impl("native_batch_norm_backward", batch_norm_backward);
  m.impl("_native_batch_norm_legit", batch_norm_legit);
  m.impl("_native_batch_norm_legit.no_stats", batch_norm_no_stats);
  m.impl("_batch_norm_no_update", batch_norm_no_update);
  m.impl("native_group_norm", group_norm);
  m.impl("native_group_norm_backward", group_norm_backward);
}

}  // namespace lazuli::backend
