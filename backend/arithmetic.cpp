// Addition and subtraction, whose operators have a factor for the second operand.
#include "backend/registration.h"
#include "backend/dispatch.h"
#include "backend/elementwise.h"

namespace lazuli::backend {
namespace {

using at::Scalar;
using at::Tensor;

bool is_one(const Scalar& s) { return !s.isComplex() && s.equal(1); }

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

// torch rejects some types here (bool subtraction, floating alpha for integers): the fallback raises its error.
bool plain_alpha(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  if (is_one(alpha)) return true;
  return at::isFloatingType(a.scalar_type()) && at::isFloatingType(b.scalar_type()) && b.is_privateuseone() && !alpha.isComplex();
}

template <ir::Op op>
Tensor sum_like(const Tensor& a, const Tensor& b, const Scalar& alpha) {
  constexpr const char* name = op == ir::Op::add ? "aten::add" : "aten::sub";
  if (is_one(alpha) && !(op == ir::Op::sub && b.scalar_type() == at::kBool)) {
    if (Tensor r = binary_fast(op, a, b); r.defined()) return r;
  }
  if (plain_alpha(a, b, alpha) && !(op == ir::Op::sub && (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool))) {
    if (Tensor r = elementwise(sum_row<op>(alpha), sum_operands<op>(a, b, alpha)); r.defined()) return r;
  }
  return fall_back<Tensor>(name, "Tensor", a, b, alpha);
}
template <ir::Op op>
Tensor& sum_like_(Tensor& a, const Tensor& b, const Scalar& alpha) {
  constexpr const char* name = op == ir::Op::add ? "aten::add_" : "aten::sub_";
  if (is_one(alpha) && binary_fast_in_place(op, a, b)) return a;
  if (plain_alpha(a, b, alpha) && !(op == ir::Op::sub && (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool))) {
    if (elementwise_into(a, sum_row<op>(alpha), sum_operands<op>(a, b, alpha), false)) return a;
  }
  fall_back<Tensor>(name, "Tensor", a, b, alpha);
  return a;
}
template <ir::Op op>
Tensor& sum_like_out(const Tensor& a, const Tensor& b, const Scalar& alpha, Tensor& out) {
  constexpr const char* name = op == ir::Op::add ? "aten::add" : "aten::sub";
  if (plain_alpha(a, b, alpha) && !(op == ir::Op::sub && (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool))) {
    if (elementwise_into(out, sum_row<op>(alpha), sum_operands<op>(a, b, alpha), true)) return out;
  }
  fall_back<Tensor>(name, "out", a, b, alpha, out);
  return out;
}

}  // namespace

void register_arithmetic(torch::Library& m) {
  m.impl("add.Tensor", sum_like<ir::Op::add>);
  m.impl("add_.Tensor", sum_like_<ir::Op::add>);
  m.impl("add.out", sum_like_out<ir::Op::add>);
  m.impl("sub.Tensor", sum_like<ir::Op::sub>);
  m.impl("sub_.Tensor", sum_like_<ir::Op::sub>);
  m.impl("sub.out", sum_like_out<ir::Op::sub>);
}

}  // namespace lazuli::backend
