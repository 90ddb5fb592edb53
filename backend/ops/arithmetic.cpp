// Addition and subtraction, whose operators have a factor for the second operand.
#include <ATen/ExpandUtils.h>
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/registration.h"
#include "lazy/record/tape.h"

namespace lazuli::backend {
namespace {

using at::Scalar;
using at::Tensor;

bool is_one(const Scalar& s) { return !s.isComplex() && s.equal(1); }
// Torch refuses a floating factor of integers, one included.
bool is_without_factor(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  const auto is_whole = [](const Tensor& t) { return c10::isIntegralType(t.scalar_type(), true); };
  return is_one(alpha) && !(alpha.isFloatingPoint() && is_whole(a) && is_whole(b));
}

// a plus (or minus) alpha times b, rounded once.
template <ir::Op op>
ir::Op sum_row(const Scalar& alpha) {
  return is_one(alpha) ? op : ir::Op::add_scaled;
}
template <ir::Op op>
Operands sum_operands(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  Operands operands{{&a, {}}, {&b, {}}};
  if (!is_one(alpha)) operands.push_back({nullptr, op == ir::Op::sub ? -alpha : alpha});
  return operands;
}

// torch rejects some types here (bool subtraction, floating alpha for integers, a boolean one for numbers): the
// fallback raises its error.
template <ir::Op op>
bool takes(const Tensor& a, const Tensor& b) {
  return op != ir::Op::sub || (a.scalar_type() != at::kBool && b.scalar_type() != at::kBool);
}
template <ir::Op op>
bool takes(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (!takes<op>(a, b)) return false;
  if (is_without_factor(a, b, alpha)) return true;
  return at::isFloatingType(a.scalar_type()) && at::isFloatingType(b.scalar_type()) && b.is_privateuseone() &&
         !alpha.isComplex() && !alpha.isBoolean() && holds(at::result_type(a, b), alpha);
}

// A complex sum is that of the parts. Torch's kernels for the CPU multiply by the factor, 1 + 0i, even when it is one,
// and make nan of infinities by it.
template <ir::Op op>
bool sums_parts(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  auto strided = [](const Tensor& t) {
    return (nameless_on_device(*t.unsafeGetTensorImpl()) && t.layout() == c10::kStrided) || is_number(t);
  };
  return takes<op>(a, b) && is_one(alpha) && strided(a) && strided(b) &&
         (a.is_privateuseone() || b.is_privateuseone()) && c10::isComplexType(at::result_type(a, b));
}
// The real and imaginary parts along a last dimension, in the type that both operands agree on.
Tensor parts(const Tensor& t, at::ScalarType type) {
  return at::view_as_real(t.to(at::device(at::kPrivateUse1).dtype(type)));
}

template <ir::Op op>
Tensor sum_parts(const Tensor& a, const Tensor& b) {
  if (lazy::Tape::current()) throw NotTaped{};
  const at::ScalarType type = at::result_type(a, b);
  const Tensor x = parts(a, type), y = parts(b, type);
  return at::view_as_complex(op == ir::Op::add ? at::add(x, y) : at::sub(x, y));
}
// Into a tensor of the result's type and shape; false when it is of another.
template <ir::Op op>
bool sum_parts_into(const Tensor& a, const Tensor& b, const Tensor& out) {
  const at::ScalarType type = at::result_type(a, b);
  if (!out.is_privateuseone() || out.scalar_type() != type) return false;
  check_overlap(out, {{&a, {}}, {&b, {}}});  // eager looks at this before shapes
  if (out.sizes() != at::IntArrayRef(at::infer_size_dimvector(a.sizes(), b.sizes()))) return false;
  Tensor to = at::view_as_real(out);
  op == ir::Op::add ? at::add_out(to, parts(a, type), parts(b, type)) : at::sub_out(to, parts(a, type), parts(b, type));
  return true;
}

template <ir::Op op>
Tensor sum_like(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  constexpr const char* name = op == ir::Op::add ? "aten::add" : "aten::sub";
  if (is_without_factor(a, b, alpha) && takes<op>(a, b)) {
    if (Tensor r = binary_fast(op, a, b); r.defined()) return r;
  }
  if (takes<op>(a, b, alpha)) {
    if (Tensor r = elementwise(sum_row<op>(alpha), sum_operands<op>(a, b, alpha)); r.defined()) return r;
  }
  if (sums_parts<op>(a, b, alpha)) return sum_parts<op>(a, b);
  return fall_back<Tensor>(name, "Tensor", a, b, alpha);
}
template <ir::Op op>
Tensor& sum_like_(Tensor& a, const Tensor& b, const Scalar& alpha) {
  constexpr const char* name = op == ir::Op::add ? "aten::add_" : "aten::sub_";
  if (is_without_factor(a, b, alpha) && takes<op>(a, b) && binary_fast_in_place(op, a, b)) return a;
  if (takes<op>(a, b, alpha)) {
    if (elementwise_into(a, sum_row<op>(alpha), sum_operands<op>(a, b, alpha), false)) return a;
  }
  if (sums_parts<op>(a, b, alpha) && sum_parts_into<op>(a, b, a)) return a;
  fall_back<Tensor>(name, "Tensor", a, b, alpha);
  return a;
}
template <ir::Op op>
Tensor& sum_like_out(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  constexpr const char* name = op == ir::Op::add ? "aten::add" : "aten::sub";
  if (takes<op>(a, b, alpha)) {
    if (elementwise_into(out, sum_row<op>(alpha), sum_operands<op>(a, b, alpha), true)) return out;
  }
  if (sums_parts<op>(a, b, alpha) && sum_parts_into<op>(a, b, out)) return out;
  fall_back<Tensor>(name, "out", a, b, alpha, out);
  return out;
}

// Torch has a kernel of its own for each of its devices, which does this.
Tensor rsub(const Tensor& a, const Tensor& b, const Scalar& alpha) { return at::sub(b, a, alpha); }

}  // namespace

void register_arithmetic(torch::Library& m) {
  m.impl("add.Tensor", sum_like<ir::Op::add>);
  m.impl("add_.Tensor", sum_like_<ir::Op::add>);
  m.impl("add.out", sum_like_out<ir::Op::add>);
  m.impl("rsub.Tensor", rsub);
  m.impl("sub.Tensor", sum_like<ir::Op::sub>);
  m.impl("sub_.Tensor", sum_like_<ir::Op::sub>);
  m.impl("sub.out", sum_like_out<ir::Op::sub>);
}

}  // namespace lazuli::backend
