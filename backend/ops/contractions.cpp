// Matrix products and convolutions.
#include <ATen/Dispatch.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/addr_native.h>
#include "backend/record/dispatch.h"
#include "backend/record/format.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;
using std::optional;

bool is_one(const Scalar& s) { return !s.isComplex() && s.equal(1); }
bool is_zero(const Scalar& s) { return !s.isComplex() && s.equal(0); }

// Integers are multiplied as eager's kernels for the host do it: modulo their range. Bools are eager's.
bool has_products(at::ScalarType type) {
  return c10::isFloatingType(type) || (c10::isIntegralType(type, false) && lazy::backing().has_host_kernels);
}

// Whether a sum of a product takes the factor as it is; of integers that are out of the type's range, or of numbers
// that are none, it is eager's to say what becomes of them.
bool is_factor(const Scalar& s, at::ScalarType type) {
  if (c10::isFloatingType(type)) return true;
  if (!s.isIntegral(false)) return false;
  return AT_DISPATCH_INTEGRAL_TYPES(type, "factor", [&] { return !c10::overflows<scalar_t, int64_t>(s.toLong()); });
}

// Two matrices, or equal batches of them, of one type whose sizes fit; anything else is eager's to judge.
template <int64_t rank>
bool multipliable(const Tensor& a, const Tensor& b) {
  return is_ours(a) && is_ours(b) && a.scalar_type() == b.scalar_type() && has_products(a.scalar_type()) &&
         a.dim() == rank && b.dim() == rank && a.size(rank - 1) == b.size(rank - 2) &&
         (rank == 2 || a.size(0) == b.size(0));
}
bool is_vector(const Tensor& v) { return is_ours(v) && v.dim() == 1 && has_products(v.scalar_type()); }

// The products that torch has operators for.
struct Matrices {
  static constexpr const char *name = "aten::mm", *add_name = "aten::addmm", *add_name_ = "aten::addmm_";
  static bool takes(const Tensor& a, const Tensor& b) { return multipliable<2>(a, b); }
  static at::DimVector shape(const Tensor& a, const Tensor& b) { return {a.size(0), b.size(1)}; }
  static ir::Value emit(lazy::Recording& r, const Tensor& a, const Tensor& b, ir::DType type) {
    return r.emit(ir::Op::matmul, {r.convert(r.value(a), type), r.convert(r.value(b), type)});
  }
};
struct Batches {
  static constexpr const char *name = "aten::bmm", *add_name = "aten::baddbmm", *add_name_ = "aten::baddbmm_";
  static bool takes(const Tensor& a, const Tensor& b) { return multipliable<3>(a, b); }
  static at::DimVector shape(const Tensor& a, const Tensor& b) { return {a.size(0), a.size(1), b.size(2)}; }
  static ir::Value emit(lazy::Recording& r, const Tensor& a, const Tensor& b, ir::DType type) {
    return Matrices::emit(r, a, b, type);
  }
};
// By a vector: a matrix of one column.
struct Vectors {
  static constexpr const char *name = "aten::mv", *add_name = "aten::addmv", *add_name_ = "aten::addmv_";
  static bool takes(const Tensor& a, const Tensor& v) {
    return is_ours(a) && a.dim() == 2 && is_vector(v) && a.scalar_type() == v.scalar_type() && a.size(1) == v.size(0);
  }
  static at::DimVector shape(const Tensor& a, const Tensor&) { return {a.size(0)}; }
  static ir::Value emit(lazy::Recording& r, const Tensor& a, const Tensor& v, ir::DType type) {
    const ir::Value column = r.reshape(r.convert(r.value(v), type), ir::Dims{v.size(0), 1});
    return r.reshape(r.emit(ir::Op::matmul, {r.convert(r.value(a), type), column}), ir::Dims{a.size(0)});
  }
};

// A product of half precision may overflow before alpha brings it back: eager scales it before it is rounded. GPUs
// would multiply several times as slowly.
bool may_overflow(const Tensor& a, const Scalar& alpha) {
  return a.scalar_type() == at::kHalf && !is_one(alpha) && !lazy::backing().has_tensor_cores;
}

// beta * bias + alpha * product, with the factors that are one or zero left out.
template <class Kind>
ir::Value scaled_sum(lazy::Recording& r, const Tensor& bias, const Tensor& x, const Tensor& y, const Scalar& beta,
                     const Scalar& alpha) {
  const ir::DType type = lazy::to_ir(x.scalar_type());
  const bool is_wide = may_overflow(x, alpha);
  ir::Value p = Kind::emit(r, x, y, is_wide ? ir::compute_type(type) : type);
  // The scaled terms of a sum are not stored: narrow types are widened around them.
  const ir::DType wide = is_one(alpha) && is_one(beta) ? type : ir::compute_type(type);
  p = r.convert(p, wide);
  if (!is_one(alpha)) p = r.mul(p, r.number(alpha, wide));
  if (is_zero(beta)) return r.convert(p, type);
  ir::Value b = r.convert(r.value(bias), wide);
  if (!is_one(beta)) b = r.mul(b, r.number(beta, wide));
  return r.convert(r.add(p, b), type);
}

bool bias_fits(const Tensor& bias, const Tensor& like, at::ArrayRef<int64_t> shape) {
  return is_ours(bias) && bias.scalar_type() == like.scalar_type() && at::is_expandable_to(bias.sizes(), shape);
}

// Elements in one place are an error for all products. Of eager's some have it, and others write outside of the memory.
void store(lazy::Recording& r, const Tensor& out, ir::Value v) { r.write(out, v); }
bool takes(const Tensor& out, const Tensor& a, const Tensor& b) {
  return is_ours(out) && out.scalar_type() == a.scalar_type() && !is_alias_of_any(out, {&a, &b});
}

// The operators of a product: alone, and added to something.
template <class Kind>
struct Product {
  static Tensor plain(const Tensor& a, const Tensor& b) {
    if (!Kind::takes(a, b)) return fall_back<Tensor>(Kind::name, "", a, b);
    lazy::Recording r;
    return r.tensor(Kind::emit(r, a, b, lazy::to_ir(a.scalar_type())), a.scalar_type());
  }
  static Tensor& plain_out(const Tensor& a, const Tensor& b, Tensor& out) {
    if (!Kind::takes(a, b) || !takes(out, a, b)) return fall_back<Tensor>(Kind::name, "out", a, b, out), out;
    at::native::resize_output(out, Kind::shape(a, b));
    lazy::Recording r;
    store(r, out, Kind::emit(r, a, b, lazy::to_ir(a.scalar_type())));
    return out;
  }
  static bool covered(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    return Kind::takes(a, b) && is_factor(beta, a.scalar_type()) && is_factor(alpha, a.scalar_type()) &&
           bias_fits(bias, a, Kind::shape(a, b));
  }
  static Tensor add(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!covered(bias, a, b, beta, alpha)) return fall_back<Tensor>(Kind::add_name, "", bias, a, b, beta, alpha);
    lazy::Recording r;
    return r.tensor(scaled_sum<Kind>(r, bias, a, b, beta, alpha), a.scalar_type());
  }
  static Tensor& add_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
    if (!covered(self, a, b, beta, alpha) || self.sizes() != at::IntArrayRef(Kind::shape(a, b)) ||
        is_alias_of_any(self, {&a, &b}))
      return fall_back<Tensor>(Kind::add_name_, "", self, a, b, beta, alpha), self;
    lazy::Recording r;
    store(r, self, scaled_sum<Kind>(r, self, a, b, beta, alpha));
    return self;
  }
  static Tensor& add_out(const Tensor& bias, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                         Tensor& out) {
    if (!covered(bias, a, b, beta, alpha) || !takes(out, a, b) || (bias.is_alias_of(out) && !bias.is_same(out)))
      return fall_back<Tensor>(Kind::add_name, "out", bias, a, b, beta, alpha, out), out;
    at::native::resize_output(out, Kind::shape(a, b));
    lazy::Recording r;
    store(r, out, scaled_sum<Kind>(r, bias, a, b, beta, alpha));
    return out;
  }
};

// Of real numbers it is recorded as the product and the sum that it is; which parts of a complex product of infinities
// are nan depends on the order of its factors, which is eager's; and so is what factors it refuses of integers.
Tensor addr(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {
  const at::ScalarType type = promoted_type({{&self, {}}, {&a, {}}, {&b, {}}});
  const bool any = !c10::isComplexType(type) && !beta.isBoolean() && !alpha.isBoolean();
  if (!any || (!c10::isFloatingType(type) && !(beta.isIntegral(false) && alpha.isIntegral(false))))
    return fall_back<Tensor>("aten::addr", "", self, a, b, beta, alpha);
  if (a.dim() != 1 || b.dim() != 1 || !at::is_expandable_to(self.sizes(), {a.size(0), b.size(0)}))
    return fall_back<Tensor>("aten::addr", "", self, a, b, beta, alpha);  // eager's error
  return at::native::math_addr(self, a.to(type), b.to(type), beta, alpha);
}

// Bytes multiplied and added up in int32.
Tensor int_mm(const Tensor& a, const Tensor& b) {
  if (a.scalar_type() != at::kChar || !multipliable<2>(a, b)) return fall_back<Tensor>("aten::_int_mm", "", a, b);
  lazy::Recording r;
  return r.tensor(r.emit(ir::Op::int_mm, {r.value(a), r.value(b)}), at::kInt);
}

// Of real numbers there is nothing to conjugate: vdot is the same.
template <bool conjugates>
Tensor dot(const Tensor& a, const Tensor& b) {
  if (!is_vector(a) || !is_vector(b) || a.scalar_type() != b.scalar_type() || a.size(0) != b.size(0))
    return fall_back<Tensor>(conjugates ? "aten::vdot" : "aten::dot", "", a, b);
  lazy::Recording r;
  const ir::DType type = lazy::to_ir(a.scalar_type()), wide = ir::compute_type(type);
  const ir::Value terms = r.mul(r.convert(r.value(a), wide), r.convert(r.value(b), wide));
  return r.tensor(r.convert(r.sum(terms, ir::Dims{0}, false), type), a.scalar_type());
}

// ---- Convolution

struct Convolution {
  IntArrayRef stride, padding, dilation;
  bool transposed;
  IntArrayRef output_padding;
  int64_t groups;
  ir::Attrs attrs() const {
    ir::Attrs a;
    for (IntArrayRef list : {stride, padding, dilation}) a.add({list.data(), list.size()});
    a.add(transposed).add({output_padding.data(), output_padding.size()}).add(groups);
    return a;
  }
};

// oneDNN has no convolutions of float64, and torch has fast ones for the CPU.
bool has_library(at::ScalarType type) {
  return c10::isFloatingType(type) && (type != at::kDouble || lazy::backing().convolves_float64);
}

bool convolvable(const Tensor& x, const Tensor& w) {
  return is_ours(x) && is_ours(w) && x.scalar_type() == w.scalar_type() && has_library(x.scalar_type()) &&
         x.dim() >= 3 && x.dim() <= 5 && w.dim() == x.dim() && x.numel() > 0 && w.numel() > 0;
}

// Of a transposed convolution eager takes no output padding that is as wide as the stride and as the dilation.
bool pads_too_much(const Convolution& c) {
  const auto at = [](IntArrayRef list, size_t d) { return list.size() == 1 ? list[0] : list[d]; };
  for (size_t d = 0; c.transposed && d < c.output_padding.size(); ++d)
    if (c.output_padding[d] >= at(c.stride, d) && c.output_padding[d] >= at(c.dilation, d)) return true;
  return false;
}

// Channels-last when an operand is, as torch's own convolutions answer.
lazy::Order convolution_order(const Tensor& x, const Tensor& w) {
  lazy::Order order = format_order(x);
  return order.empty() ? format_order(w) : order;
}

// A bias along the channels of a result of `rank` dimensions. Recorded before the convolution, which can absorb only
// what is there by then (lowering/fusion/epilogue.h).
ir::Value channel_bias(lazy::Recording& r, const Tensor& bias, int64_t rank) {
  ir::Dims shape(rank, 1);
  shape[1] = bias.numel();
  return r.reshape(r.value(bias), shape);
}

Tensor convolution(const Tensor& x, const Tensor& w, const optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  Convolution c{stride, padding, dilation, transposed, output_padding, groups};
  bool has_bias = bias && bias->defined();
  bool fits = convolvable(x, w) && !pads_too_much(c) &&
              (!has_bias || (is_ours(*bias) && bias->scalar_type() == x.scalar_type()));
  if (!fits)
    return fall_back<Tensor>("aten::convolution", "", x, w, bias, stride, padding, dilation, transposed, output_padding,
                             groups);
  lazy::Recording r;
  const ir::Value b = has_bias ? channel_bias(r, *bias, x.dim()) : ir::Value{};
  ir::Value y = r.emit(ir::Op::convolution, {r.value(x), r.value(w)}, c.attrs());
  if (has_bias) y = r.add(y, b);
  return tensor_in(r, y, x.scalar_type(), convolution_order(x, w));
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& gy, const Tensor& x, const Tensor& w,
                                                        IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                                                        bool transposed, IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  if (!convolvable(x, w) || !is_ours(gy) || gy.scalar_type() != x.scalar_type()) {
    int64_t channels = transposed ? w.size(1) * groups : w.size(0);
    return fall_back_tuple<3>("aten::convolution_backward", "", gy, x, w, optional<at::IntArrayRef>(channels), stride,
                              padding, dilation, transposed, output_padding, groups, mask);
  }
  Convolution c{stride, padding, dilation, transposed, output_padding, groups};
  lazy::Order order = convolution_order(x, w);
  lazy::Recording r;
  Tensor gx, gw, gb;
  ir::Value g = r.value(gy);
  if (mask[0])
    gx = tensor_in(r, r.emit(ir::Op::convolution_input_grad, {g, r.value(w)}, c.attrs().add(lazy::to_dims(x.sizes()))),
                   x.scalar_type(), order);
  if (mask[1])
    gw = tensor_in(r, r.emit(ir::Op::convolution_weight_grad, {g, r.value(x)}, c.attrs().add(lazy::to_dims(w.sizes()))),
                   x.scalar_type(), order);
  if (mask[2]) {
    ir::Dims dims{0};
    for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
    gb = r.tensor(r.sum(g, dims, false), x.scalar_type());
  }
  return {gx, gw, gb};
}

template <class Kind>
void register_product(torch::Library& m) {
  const std::string name = Kind::name, add_name = Kind::add_name;
  m.impl(name.c_str(), Product<Kind>::plain);
  m.impl((name + ".out").c_str(), Product<Kind>::plain_out);
  m.impl(add_name.c_str(), Product<Kind>::add);
  m.impl(Kind::add_name_, Product<Kind>::add_);
  m.impl((add_name + ".out").c_str(), Product<Kind>::add_out);
}

}  // namespace

void register_contractions(torch::Library& m) {
  register_product<Matrices>(m);
  register_product<Batches>(m);
  register_product<Vectors>(m);
  m.impl("addr", addr);
  m.impl("_int_mm", int_mm);
  m.impl("dot", dot<false>);
  m.impl("vdot", dot<true>);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}

}  // namespace lazuli::backend
