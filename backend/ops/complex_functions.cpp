// Functions of complex numbers as functions of their parts, so that they fuse with what is around them. Where the
// formulas of torch's kernels for the CPU overflow to nan on the way to a result that is finite, these do not.
#include <limits>
#include <ATen/Functions.h>
#include "backend/record/complex_numbers.h"
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

struct Parts {
  Tensor re, im;
};

// 1 / (1 + exp(-z)), z = a + ib, by t = exp(-|a|), which does not overflow. With h = cos(b / 2), 1 + t cos(b) is
// (1 - t) + 2 t h^2 and the square of the denominator's magnitude (1 - t)^2 + 4 t h^2: sums of what is not negative.
Parts sigmoid(const Tensor& a, const Tensor& im) {
  const Tensor b = im.masked_fill(a.isinf(), 0);  // the limit is the same along every line
  const Tensor down = -a.abs(), t = at::exp(down), less = -at::expm1(down), twice = 2 * t * at::cos(b / 2).square();
  const Tensor square = less.square() + 2 * twice;
  return {at::where(a >= 0, less + twice, twice - t * less) / square, t * at::sin(b) / square};
}

// exp(z) - 1 with expm1(a) cos(b) - 2 sin(b / 2)^2 as its real part: what is small does not cancel.
Parts expm1(const Tensor& a, const Tensor& im) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor b = im.masked_fill(a == -kInfinity, 0),
               unbounded = (a == kInfinity).logical_and(at::isfinite(b).logical_not());
  const Tensor re = at::expm1(a) * at::cos(b) - 2 * at::sin(b / 2).square();
  return {re.masked_fill(unbounded, kInfinity), at::where(b == 0, b, at::exp(a) * at::sin(b))};
}

constexpr char kSigmoid[] = "sigmoid", kExpm1[] = "expm1";

// `aten`: the operator. `op`: its row for numbers that are not complex.
template <const char* aten, ir::Op op, Parts (*formula)(const Tensor&, const Tensor&)>
struct Function {
  static std::string name() { return std::string("aten::") + aten; }
  static Tensor complex(const Tensor& x) {
    if (lazy::Tape::current()) throw NotTaped{};
    const Parts y = formula(at::real(x), at::imag(x));
    Tensor out = at::empty_like(x);
    at::view_as_real(out).copy_(at::stack({y.re, y.im}, -1));
    take_strides_of_ones(out, {{&x, {}}});
    return out;
  }
  static Tensor plain(const Tensor& x) {
    if (Tensor t = unary_fast(op, x); t.defined()) return t;
    if (has_parts(x)) return complex(x);
    if (Tensor t = elementwise(op, {{&x, {}}}); t.defined()) return t;
    return fall_back<Tensor>(name().c_str(), "", x);
  }
  static Tensor& in_place(Tensor& x) {
    if (has_parts(x)) return x.copy_(complex(x));
    if (!elementwise_into(x, op, {{&x, {}}}, false)) fall_back<Tensor>((name() + "_").c_str(), "", x);
    return x;
  }
  static Tensor& out(const Tensor& x, Tensor& out) {
    if (has_parts(x) && has_parts(out) && out.scalar_type() == x.scalar_type()) {
      check_overlap(out, {{&x, {}}});
      return store(out, complex(x));
    }
    if (!elementwise_into(out, op, {{&x, {}}}, true)) fall_back<Tensor>(name().c_str(), "out", x, out);
    return out;
  }
  static void implement(torch::Library& m) {
    const std::string n(aten);
    m.impl(n.c_str(), plain);
    m.impl((n + "_").c_str(), in_place);
    m.impl((n + ".out").c_str(), out);
  }
};

// |z|, which is real.
Tensor magnitude(const Tensor& x) {
  if (Tensor t = unary_fast(ir::Op::abs, x); t.defined()) return t;
  if (Tensor t = complex_row(ir::Op::complex_abs, {{&x, {}}}); t.defined()) return t;
  if (Tensor t = elementwise(ir::Op::abs, {{&x, {}}}); t.defined()) return t;
  return fall_back<Tensor>("aten::abs", "", x);
}

// Made with the parts of its operands.
Tensor polar(const Tensor& size, const Tensor& angle) {
  if (may_be_part(size) && may_be_part(angle) && size.scalar_type() == angle.scalar_type())
    if (Tensor t = complex_row(ir::Op::polar, {{&size, {}}, {&angle, {}}}); t.defined()) return t;
  return fall_back<Tensor>("aten::polar", "", size, angle);
}

Tensor complex(const Tensor& re, const Tensor& im) {
  if (Tensor t = complex_of(re, im); t.defined()) return t;
  return fall_back<Tensor>("aten::complex", "", re, im);
}

Tensor conj_physical(const Tensor& x) {
  if (Tensor t = complex_row(ir::Op::complex_conj, {{&x, {}}}); t.defined()) return t;
  return fall_back<Tensor>("aten::_conj_physical", "", x);
}
Tensor& conj_physical_out(const Tensor& x, Tensor& out) {
  if (!complex_row_into(out, ir::Op::complex_conj, {{&x, {}}}, true))
    fall_back<Tensor>("aten::conj_physical", "out", x, out);
  return out;
}

// Also of real numbers, whose direction is their sign.
Tensor sgn(const Tensor& x) {
  if (Tensor t = unary_fast(ir::Op::sign, x); t.defined()) return t;
  if (has_parts(x)) return complex_row(ir::Op::complex_sgn, {{&x, {}}});
  if (Tensor t = elementwise(ir::Op::sign, {{&x, {}}}); t.defined()) return t;
  return fall_back<Tensor>("aten::sgn", "", x);
}
Tensor& sgn_in_place(Tensor& x) {
  if (!complex_row_into(x, ir::Op::complex_sgn, {{&x, {}}}, false) &&
      !elementwise_into(x, ir::Op::sign, {{&x, {}}}, false))
    fall_back<Tensor>("aten::sgn_", "", x);
  return x;
}
Tensor& sgn_out(const Tensor& x, Tensor& out) {
  if (!complex_row_into(out, ir::Op::complex_sgn, {{&x, {}}}, true) &&
      !elementwise_into(out, ir::Op::sign, {{&x, {}}}, true))
    fall_back<Tensor>("aten::sgn", "out", x, out);
  return out;
}

}  // namespace

void register_complex_functions(torch::Library& m) {
  Function<kSigmoid, ir::Op::sigmoid, sigmoid>::implement(m);
  Function<kExpm1, ir::Op::expm1, expm1>::implement(m);
  m.impl("sgn", sgn);
  m.impl("sgn_", sgn_in_place);
  m.impl("sgn.out", sgn_out);
  m.impl("abs", magnitude);
  m.impl("complex", complex);
  m.impl("polar", polar);
  m.impl("_conj_physical", conj_physical);
  m.impl("conj_physical.out", conj_physical_out);
}

}  // namespace lazuli::backend
