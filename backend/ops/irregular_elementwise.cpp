// Elementwise operators whose ATen forms are irregular: named variants, flags, conditions, numbers that decide the
// formula.
#include <cmath>
#include <limits>
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::Scalar;
using at::Tensor;

Tensor gelu(const Tensor& x, c10::string_view approximate) {
  if (!is_floating(x) || (approximate != "tanh" && approximate != "none"))
    return fall_back<Tensor>("aten::gelu", "", x, std::string(approximate));
  return elementwise(approximate == "tanh" ? ir::Op::gelu_tanh : ir::Op::gelu, {{&x, {}}});
}
Tensor gelu_backward(const Tensor& gy, const Tensor& x, c10::string_view approximate) {
  if (!is_floating(x) || !is_floating(gy))
    return fall_back<Tensor>("aten::gelu_backward", "", gy, x, std::string(approximate));
  return elementwise(approximate == "tanh" ? ir::Op::gelu_tanh_backward : ir::Op::gelu_backward, {{&gy, {}}, {&x, {}}});
}
Tensor leaky_relu_backward(const Tensor& gy, const Tensor& x, const Scalar& slope, bool is_result) {
  // From the result the sign tells the same unless the slope is negative, which torch rejects.
  if (!is_floating(x) || !is_floating(gy) || (is_result && slope.toDouble() < 0))
    return fall_back<Tensor>("aten::leaky_relu_backward", "", gy, x, slope, is_result);
  return elementwise(ir::Op::leaky_relu_backward, {{&gy, {}}, {&x, {}}, {nullptr, slope}});
}
Tensor elu_backward(const Tensor& gy, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& x) {
  if (!is_floating(x) || !is_floating(gy) || is_result)
    return fall_back<Tensor>("aten::elu_backward", "", gy, alpha, scale, input_scale, is_result, x);
  return elementwise(ir::Op::elu_backward,
                     {{&gy, {}}, {&x, {}}, {nullptr, alpha}, {nullptr, scale}, {nullptr, input_scale}});
}
// Torch's second result is room for its kernel on the host, which writes rows; as on CUDA there is nothing in ours.
std::tuple<Tensor, Tensor> log_sigmoid(const Tensor& x) {
  if (!is_floating(x)) return fall_back_tuple<2>("aten::log_sigmoid_forward", "", x);
  const Tensor in = lazy::backing().has_host_kernels ? x.contiguous() : x;
  return {elementwise(ir::Op::log_sigmoid, {{&in, {}}}), at::empty({0}, x.options())};
}
Tensor log_sigmoid_backward(const Tensor& gy, const Tensor& x, const Tensor& buffer) {
  if (!is_floating(x) || !is_floating(gy)) return fall_back<Tensor>("aten::log_sigmoid_backward", "", gy, x, buffer);
  return elementwise(ir::Op::log_sigmoid_backward, {{&gy, {}}, {&x, {}}});
}
Tensor& log_sigmoid_backward_out(const Tensor& gy, const Tensor& x, const Tensor& buffer, Tensor& out) {
  if (!elementwise_into(out, ir::Op::log_sigmoid_backward, {{&gy, {}}, {&x, {}}}, true))
    fall_back<Tensor>("aten::log_sigmoid_backward", "grad_input", gy, x, buffer, out);
  return out;
}

// What is not given is 0, and the largest and smallest number of the type. What the type does not hold is infinite.
Tensor nan_to_num(const Tensor& x, std::optional<double> nan, std::optional<double> above,
                  std::optional<double> below) {
  if (!is_floating(x)) return fall_back<Tensor>("aten::nan_to_num", "", x, nan, above, below);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto most = [&]() -> double {
    switch (x.scalar_type()) {
      case at::kDouble:
        return std::numeric_limits<double>::max();
      case at::kBFloat16:
        return std::numeric_limits<c10::BFloat16>::max();
      case at::kHalf:
        return std::numeric_limits<c10::Half>::max();
      default:
        return std::numeric_limits<float>::max();
    }
  };
  const auto held = [&](double n) { return Scalar(holds(x.scalar_type(), n) ? n : std::copysign(kInfinity, n)); };
  const Tensor number = at::where(at::isnan(x), held(nan.value_or(0)), x),
               bounded = at::where(x == kInfinity, held(above ? *above : most()), number);
  return at::where(x == -kInfinity, held(below ? *below : -most()), bounded).to(x.scalar_type());
}

// To fit a weight into float16. Torch's kernel writes over it, and reads its memory by the address.
Tensor saturated(const Tensor& weight) {
  constexpr double kMost = 65504;
  return is_floating(weight) ? at::clamp(weight, -kMost, kMost)
                             : fall_back<Tensor>("aten::_saturate_weight_to_fp16", "", weight);
}
// From both sides the first derivative of digamma grows beyond all bounds at its poles, zero and the negative integers,
// where torch's formula divides by the rounded sine of a multiple of pi. At minus infinity it has no limit.
Tensor polygamma_of(int64_t n, const Tensor& x) {
  const Tensor y = fall_back<Tensor>("aten::polygamma", "", n, x);
  if (n != 1) return y;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool floating = c10::isFloatingType(x.scalar_type());
  const Tensor is_pole =
      floating ? (x <= 0).logical_and(at::floor(x) == x).logical_and(x > -kInfinity) : x.to(at::kDouble) <= 0;
  return at::where(is_pole, kInfinity, y).to(y.scalar_type());
}
Tensor& polygamma_out(int64_t n, const Tensor& x, Tensor& out) {
  const Tensor y = n == 1 && is_writable(out, {&x}) ? polygamma_of(n, x) : Tensor();
  if (!y.defined() || !c10::canCast(y.scalar_type(), out.scalar_type()))
    return fall_back<Tensor>("aten::polygamma", "out", n, x, out), out;
  return store(out, y);
}

// Torch's recurrences end at nan, and begin with it where x is nan: what they return then was never written.
constexpr const char* kRecurrences[] = {
    "chebyshev_polynomial_t",         "chebyshev_polynomial_u",         "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",         "hermite_polynomial_h",           "hermite_polynomial_he",
    "laguerre_polynomial_l",          "legendre_polynomial_p",          "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w"};
void recurrence(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const size_t first = stack->size() - op.schema().arguments().size();
  const Tensor x = (*stack)[first].toTensor(), n = (*stack)[first + 1].toTensor();
  if (!c10::isFloatingType(x.scalar_type())) return fallback(op, keys, stack);
  const Tensor is_nan = at::isnan(x).logical_and(n.to(at::kDouble) >= 1);  // of unsigned types few operators know
  fallback(op, keys, stack);
  stack->back().toTensor().masked_fill_(is_nan, std::numeric_limits<double>::quiet_NaN());
}

// Either bound may be absent. What `record` gives is false where the row does not cover x.
template <class F>
auto clamping(const Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high, F record) {
  // A nan that is the only bound is none here, and makes nan of all in `clamp_min` and `clamp_max`.
  const auto is_nan = [](const std::optional<Scalar>& bound) {
    return bound && bound->isFloatingPoint() && std::isnan(bound->toDouble());
  };
  if (!(low && high) && (is_nan(low) || is_nan(high))) return decltype(record(ir::Op::clamp, Operands{})){};
  if (low && high) return record(ir::Op::clamp, Operands{{&x, {}}, {nullptr, *low}, {nullptr, *high}});
  if (low) return record(ir::Op::clamp_min, Operands{{&x, {}}, {nullptr, *low}});
  if (high) return record(ir::Op::clamp_max, Operands{{&x, {}}, {nullptr, *high}});
  return decltype(record(ir::Op::clamp, Operands{})){};
}
Tensor clamp(const Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  const Tensor r =
      clamping(x, low, high, [](ir::Op op, const Operands& operands) { return elementwise(op, operands); });
  return r.defined() ? r : fall_back<Tensor>("aten::clamp", "", x, low, high);
}
Tensor& clamp_(Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  const auto record = [&x](ir::Op op, const Operands& operands) { return elementwise_into(x, op, operands, false); };
  if (!clamping(x, low, high, record)) fall_back<Tensor>("aten::clamp_", "", x, low, high);
  return x;
}
Tensor& clamp_out(const Tensor& x, const std::optional<Scalar>& low, const std::optional<Scalar>& high, Tensor& out) {
  const auto record = [&out](ir::Op op, const Operands& operands) { return elementwise_into(out, op, operands, true); };
  if (!clamping(x, low, high, record)) fall_back<Tensor>("aten::clamp", "out", x, low, high, out);
  return out;
}
Tensor clamp_between_tensors(const Tensor& x, const std::optional<Tensor>& low, const std::optional<Tensor>& high) {
  const bool above = low && low->defined(), below = high && high->defined();
  Tensor r;
  if (above && below)
    r = elementwise(ir::Op::clamp, {{&x, {}}, {&*low, {}}, {&*high, {}}});
  else if (above)
    r = elementwise(ir::Op::clamp_min, {{&x, {}}, {&*low, {}}});
  else if (below)
    r = elementwise(ir::Op::clamp_max, {{&x, {}}, {&*high, {}}});
  return r.defined() ? r : fall_back<Tensor>("aten::clamp", "Tensor", x, low, high);
}

// The functional form has no overload name, which the table goes by.
Tensor& floor_divide_(Tensor& a, const Tensor& b) {
  if (!elementwise_into(a, ir::Op::floor_divide, {{&a, {}}, {&b, {}}}, false))
    fall_back<Tensor>("aten::floor_divide_", "Tensor", a, b);
  return a;
}

// Torch rounds a quotient of tensors of 16 bits before it truncates it. On the host it takes one without dimensions for
// a number.
Tensor truncated_quotient(const Tensor& a, const Tensor& b) {
  const at::ScalarType type = at::result_type(a, b);
  const bool by_number = is_number(b) || (b.dim() == 0 && lazy::backing().has_host_kernels);
  if (!at::isReducedFloatingType(type) || by_number) return elementwise(ir::Op::trunc_divide, {{&a, {}}, {&b, {}}});
  const Tensor above = is_number(a) ? a.to(type) : a;
  const Tensor quotient = elementwise(ir::Op::div, {{&above, {}}, {&b, {}}});
  return quotient.defined() ? elementwise(ir::Op::trunc, {{&quotient, {}}}) : quotient;
}

Tensor div_mode(const Tensor& a, const Tensor& b, std::optional<c10::string_view> mode) {
  Tensor r;
  if (!mode)
    r = elementwise(ir::Op::div, {{&a, {}}, {&b, {}}});
  else if (*mode == "floor")
    r = elementwise(ir::Op::floor_divide, {{&a, {}}, {&b, {}}});
  else if (*mode == "trunc")
    r = truncated_quotient(a, b);
  if (r.defined()) return r;
  return fall_back<Tensor>("aten::div", "Tensor_mode", a, b, mode ? std::optional<std::string>(*mode) : std::nullopt);
}

// In float16 torch computes a power, which of minus infinity and of minus zero is none of these.
std::optional<ir::Op> root_of(const Tensor& x, const Scalar& exponent) {
  if (!is_floating(x) || x.scalar_type() == at::kHalf || exponent.isComplex()) return {};
  if (exponent.toDouble() == 0.5) return ir::Op::sqrt;
  if (exponent.toDouble() == -0.5) return ir::Op::rsqrt;
  return {};
}

// The derivatives of these read their result, and torch's node of a power keeps its operand alone: so what is kept is
// not the result, which may be written before backward.
Tensor apart_from_kept(const Tensor& x, ir::Op op) {
  Tensor kept = elementwise(op, {{&x, {}}});
  if (!kept.defined() || !x.requires_grad()) return kept;
  lazy::Order order;
  if (!kept.is_contiguous()) lazy::memory_order(kept.sizes(), kept.strides(), order);
  lazy::Recording r;
  Tensor out = r.tensor(r.mul(r.value(kept, order), 1.0), kept.scalar_type(), order);
  take_strides_of_ones(out, {{&kept, {}}}, kept.scalar_type());
  return out;
}

// Small exponents are products and roots: exact, and cheap in a kernel. Any other exponent is a run-time number.
Tensor power(const Tensor& x, const Scalar& exponent) {
  if (is_floating(x) && !exponent.isComplex()) {
    double e = exponent.toDouble();
    if (e == 2) return elementwise(ir::Op::mul, {{&x, {}}, {&x, {}}});
    if (e == 1) return elementwise(ir::Op::mul, {{&x, {}}, {nullptr, Scalar(1.0)}});
    if (e == 3) {
      Tensor square = elementwise(ir::Op::mul, {{&x, {}}, {&x, {}}});
      return elementwise(ir::Op::mul, {{&square, {}}, {&x, {}}});
    }
    if (const auto root = root_of(x, exponent)) return apart_from_kept(x, *root);
    if (e == -1) return apart_from_kept(x, ir::Op::reciprocal);
    if (Tensor r = elementwise(ir::Op::pow, {{&x, {}}, {nullptr, exponent}}); r.defined()) return r;
  }
  return fall_back<Tensor>("aten::pow", "Tensor_Scalar", x, exponent);
}

// In place and into a given tensor only these are other rows: pow gives another infinity's and another zero's root.
Tensor& power_into(Tensor& out, const Tensor& x, const Scalar& exponent, bool is_out) {
  const auto root = root_of(x, exponent);
  Operands operands{{&x, {}}};
  if (!root) operands.push_back({nullptr, exponent, is_out});
  if (elementwise_into(out, root.value_or(ir::Op::pow), operands, is_out)) return out;
  if (is_out)
    fall_back<Tensor>("aten::pow", "Tensor_Scalar_out", x, exponent, out);
  else
    fall_back<Tensor>("aten::pow_", "Scalar", out, exponent);
  return out;
}
Tensor& power_(Tensor& x, const Scalar& exponent) { return power_into(x, x, exponent, false); }
Tensor& power_out(const Tensor& x, const Scalar& exponent, Tensor& out) { return power_into(out, x, exponent, true); }

template <bool negative>
Tensor is_infinity(const Tensor& x) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (Tensor r = elementwise(ir::Op::eq, {{&x, {}}, {nullptr, Scalar(negative ? -infinity : infinity)}}); r.defined())
    return r;
  return fall_back<Tensor>(negative ? "aten::isneginf" : "aten::isposinf", "", x);
}

// Eager makes both out of other operators, and of whole numbers like x: which only strides in dimensions of size 1 or 0
// tell.
Tensor is_infinite(const Tensor& x) {
  Tensor out = elementwise(ir::Op::isinf, {{&x, {}}});
  if (!out.defined()) return fall_back<Tensor>("aten::isinf", "", x);
  if (x.is_floating_point())
    take_strides_of_ones(out, {{&out, {}}, {nullptr, 0, false}});  // |x| == infinity
  else
    take_strides_like(out, x);
  return out;
}
Tensor is_finite(const Tensor& x) {
  Tensor out = elementwise(ir::Op::isfinite, {{&x, {}}});
  if (!out.defined()) return fall_back<Tensor>("aten::isfinite", "", x);
  if (out.numel() != 0 && has_usual_strides(x)) return out;
  if (x.is_floating_point()) {
    const Tensor is_number = elementwise(ir::Op::eq, {{&x, {}}, {&x, {}}}), is_bounded = is_infinite(x);
    take_strides_of_ones(out, {{&is_number, {}}, {&is_bounded, {}}});  // (x == x) * (|x| != infinity)
  } else {
    take_strides_like(out, x);
  }
  return out;
}

// where: the condition keeps its own type, the branches are promoted. Whether ours computes it, and in which type.
bool chooses(const Tensor& condition, const Tensor& a, const Tensor& b, c10::ScalarType& type) {
  if (!is_ours(condition) || condition.scalar_type() != at::kBool) return false;
  if (!(is_ours(a) || is_number(a)) || !(is_ours(b) || is_number(b))) return false;
  type = promoted_type({{&a, {}}, {&b, {}}});
  return ir::is_native(lazy::to_ir(type));
}
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  Operands branches{{&a, {}}, {&b, {}}}, all{{&condition, {}}, {&a, {}}, {&b, {}}};
  c10::ScalarType type = at::kBool;
  if (!chooses(condition, a, b, type)) return fall_back<Tensor>("aten::where", "self", condition, a, b);
  ir::Dims shape = broadcast_shape(all);
  lazy::Order order = result_order(all, shape);
  lazy::Recording r;
  ir::DType t = lazy::to_ir(type);
  ir::Value v = r.emit(ir::Op::where, {read(r, all[0], ir::DType::Bool, order), read(r, branches[0], t, order),
                                       read(r, branches[1], t, order)});
  Tensor out = r.tensor(v, type, order);
  take_strides_of_ones(out, all);
  return out;
}

// Into a tensor of the result's type and shape.
Tensor& where_out(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  Operands all{{&condition, {}}, {&a, {}}, {&b, {}}};
  c10::ScalarType type = at::kBool;
  bool fits = is_ours(out) && chooses(condition, a, b, type) && type == out.scalar_type();
  if (!fits || !ir::equal(broadcast_shape(all), out.sizes()))
    return fall_back<Tensor>("aten::where", "self_out", condition, a, b, out), out;
  check_overlap(out, all);
  lazy::Recording r;
  ir::DType t = lazy::to_ir(type);
  r.write(out, r.emit(ir::Op::where,
                      {read(r, all[0], ir::DType::Bool, {}), read(r, all[1], t, {}), read(r, all[2], t, {})}));
  return out;
}

// Whether a tensor of this type holds the number as it is; of others eager judges.
bool holds_exactly(c10::ScalarType type, const Scalar& number) {
  if (type == at::kBool) return number.isBoolean();
  const bool is_of_kind = c10::isFloatingType(type) ? !number.isComplex() : number.isIntegral(true);
  return is_of_kind && holds(type, number);
}

bool masked(const Tensor& self, const Tensor& mask, const Operand& value, bool in_place, Tensor& out) {
  if (!is_ours(self) || !is_ours(mask) || mask.scalar_type() != at::kBool) return false;
  const c10::ScalarType type = self.scalar_type();
  if (const Tensor* v = value.tensor) {
    if (v->dim() != 0 || !(is_ours(*v) || is_number(*v))) return false;
    if (!c10::isFloatingType(type) && v->scalar_type() != type) return false;
  } else if (type == at::kBool && value.number.isIntegral(false)) {
    if (const int64_t n = value.number.toLong(); n != 0 && n != 1) return false;
  } else if (!holds_exactly(type, value.number)) {
    return false;
  }
  ir::DType t = lazy::to_ir(type);
  Operands all{{&self, {}}, {&mask, {}}};
  // Errors name the operands in this order.
  const ir::Dims shape = in_place ? broadcast_shape(all) : broadcast_shape({{&mask, {}}, {&self, {}}});
  if (in_place && (!ir::equal(shape, self.sizes()) || !is_writable(self, {&mask}))) return false;
  lazy::Recording r;
  ir::Value v =
      r.emit(ir::Op::where, {read(r, all[1], ir::DType::Bool, {}), read(r, value, t, {}), read(r, all[0], t, {})});
  if (in_place)
    r.write(self, v);
  else
    out = r.tensor(v, self.scalar_type());  // row-major, whatever the operands are
  return true;
}
Tensor masked_fill_scalar(const Tensor& self, const Tensor& mask, const Scalar& value) {
  Tensor out;
  return masked(self, mask, {nullptr, value}, false, out)
             ? out
             : fall_back<Tensor>("aten::masked_fill", "Scalar", self, mask, value);
}
Tensor& masked_fill_scalar_(Tensor& self, const Tensor& mask, const Scalar& value) {
  Tensor out;
  if (!masked(self, mask, {nullptr, value}, true, out))
    fall_back<Tensor>("aten::masked_fill_", "Scalar", self, mask, value);
  return self;
}
Tensor masked_fill_tensor(const Tensor& self, const Tensor& mask, const Tensor& value) {
  Tensor out;
  return masked(self, mask, {&value, {}}, false, out)
             ? out
             : fall_back<Tensor>("aten::masked_fill", "Tensor", self, mask, value);
}
Tensor& masked_fill_tensor_(Tensor& self, const Tensor& mask, const Tensor& value) {
  Tensor out;
  if (!masked(self, mask, {&value, {}}, true, out))
    fall_back<Tensor>("aten::masked_fill_", "Tensor", self, mask, value);
  return self;
}

}  // namespace

void register_irregular_elementwise(torch::Library& m) {
  m.impl("gelu", gelu);
  m.impl("gelu_backward", gelu_backward);
  m.impl("leaky_relu_backward", leaky_relu_backward);
  m.impl("elu_backward", elu_backward);
  m.impl("log_sigmoid_forward", log_sigmoid);
  m.impl("log_sigmoid_backward", log_sigmoid_backward);
  m.impl("log_sigmoid_backward.grad_input", log_sigmoid_backward_out);
  m.impl("_saturate_weight_to_fp16", saturated);
  for (const char* name : kRecurrences)
    for (const char* overload : {"", ".out"})
      m.impl(("special_" + std::string(name) + overload).c_str(),
             torch::CppFunction::makeFromBoxedFunction<&recurrence>());
  m.impl("polygamma", polygamma_of);
  m.impl("polygamma.out", polygamma_out);
  m.impl("clamp", clamp);
  m.impl("nan_to_num", nan_to_num);
  m.impl("clamp.Tensor", clamp_between_tensors);
  m.impl("clamp_", clamp_);
  m.impl("clamp.out", clamp_out);
  m.impl("floor_divide_.Tensor", floor_divide_);
  m.impl("div.Tensor_mode", div_mode);
  m.impl("pow.Tensor_Scalar", power);
  m.impl("pow_.Scalar", power_);
  m.impl("pow.Tensor_Scalar_out", power_out);
  m.impl("isinf", is_infinite);
  m.impl("isfinite", is_finite);
  m.impl("isposinf", is_infinity<false>);
  m.impl("isneginf", is_infinity<true>);
  m.impl("where.self", where);
  m.impl("where.self_out", where_out);
  m.impl("masked_fill.Scalar", masked_fill_scalar);
  m.impl("masked_fill_.Scalar", masked_fill_scalar_);
  m.impl("masked_fill.Tensor", masked_fill_tensor);
  m.impl("masked_fill_.Tensor", masked_fill_tensor_);
}

}  // namespace lazuli::backend
