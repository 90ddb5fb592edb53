// Random numbers whose distributions are given by tensors, and those that are made of others (random.cpp draws those).
#include <cmath>
#include <limits>
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include "backend/random/draws.h"
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "backend/record/requirements.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using ir::Requirement;
using std::optional;

bool is_drawn_float(const Tensor& t) { return is_ours(t) && c10::isFloatingType(t.scalar_type()) && !draws_as_eager(); }
bool is_number_type(const Tensor& t) { return is_ours(t) && t.scalar_type() != at::kBool && !draws_as_eager(); }
Tensor deviations(const Tensor& std) { return required(std, std >= 0, Requirement::Deviation); }

Tensor normal_of_tensors(const Tensor& mean, const Tensor& std, optional<at::Generator> g) {
  if (!is_drawn_float(mean) || !is_drawn_float(std) || is_of_host(g))
    return fall_back<Tensor>("aten::normal", "Tensor_Tensor", mean, std, g);
  Tensor z = at::empty(at::infer_size_dimvector(mean.sizes(), std.sizes()), mean.options()).normal_(0, 1, g);
  return z.mul_(deviations(std)).add_(mean);
}
Tensor normal_of_mean(const Tensor& mean, double std, optional<at::Generator> g) {
  if (!is_drawn_float(mean) || !(std >= 0) || is_of_host(g))
    return fall_back<Tensor>("aten::normal", "Tensor_float", mean, std, g);
  return at::empty(mean.sizes(), mean.options()).normal_(0, std, g).add_(mean);
}
Tensor normal_of_deviation(double mean, const Tensor& std, optional<at::Generator> g) {
  if (!is_drawn_float(std) || is_of_host(g)) return fall_back<Tensor>("aten::normal", "float_Tensor", mean, std, g);
  return at::empty(std.sizes(), std.options()).normal_(0, 1, g).mul_(deviations(std)).add_(mean);
}

// Uniform numbers are compared in float32 at least: in 16 bits few of them differ.
Tensor& bernoulli_of_tensor(Tensor& self, const Tensor& p, optional<at::Generator> g) {
  if (!is_ours(self) || self.is_complex() || !is_drawn_float(p) || is_of_host(g) ||
      !at::is_expandable_to(p.sizes(), self.sizes()))
    return fall_back<Tensor>("aten::bernoulli_", "Tensor", self, p, g), self;
  const Tensor wide = p.to(at::toOpMathType(p.scalar_type()));
  const Tensor u = at::empty(self.sizes(), wide.options()).uniform_(0, 1, g);
  return self.copy_(u < required(wide, (wide >= 0).logical_and_(wide <= 1), Requirement::Probability));
}

Tensor& log_normal_(Tensor& self, double mean, double std, optional<at::Generator> g) {
  if (!is_drawn_float(self) || !(std > 0) || is_of_host(g))
    return fall_back<Tensor>("aten::log_normal_", "", self, mean, std, g), self;
  const auto wide = self.options().dtype(at::toOpMathType(self.scalar_type()));
  return self.copy_(at::empty(self.sizes(), wide).normal_(mean, std, g).exp_());
}

// How many of the intervals of a Poisson process with probability p each, up to the first event: an exponential number,
// rounded up.
Tensor& geometric_(Tensor& self, double p, optional<at::Generator> g) {
  if (!is_number_type(self) || self.is_complex() || is_of_host(g) || !(p > 0 && p < 1))
    return fall_back<Tensor>("aten::geometric_", "", self, p, g), self;
  const Tensor waited = at::empty(self.sizes(), self.options().dtype(at::kDouble)).exponential_(-std::log1p(-p), g);
  return self.copy_(waited.ceil_().clamp_min_(1));
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One category of each distribution: that which has the largest quotient of weight and exponential number (the
// "exponential race"; Yellott, The relationship between Luce's choice axiom ..., 1977), as torch draws it. In 16 bits
// numbers would be equal.
Tensor multinomial(const Tensor& weights, c10::SymInt count, bool replacement, optional<at::Generator> g) {
  const int64_t n = count.expect_int();
  if (n != 1 || !is_drawn_float(weights) || is_of_host(g) || weights.dim() < 1 || weights.dim() > 2 ||
      weights.numel() == 0)
    return fall_back<Tensor>("aten::multinomial", "", weights, n, replacement, g);
  // In one recording, since generation and agents draw at each step.
  lazy::Recording r;
  const ir::DType type = lazy::to_ir(weights.scalar_type()), wide = ir::compute_type(type);
  const ir::Dims shape = lazy::to_dims(weights.sizes());
  const ir::Attrs along_last{{weights.dim() - 1}, {1}};
  const auto compare = [&](ir::Op op, ir::Value x, double with) { return r.emit(op, {x, r.constant(with, type)}); };
  const ir::Value x = r.value(weights);
  const ir::Value are_sound =
      r.emit(ir::Op::logical_and, {compare(ir::Op::ge, x, 0), compare(ir::Op::lt, x, kInfinity)});
  const ir::Value sound = required(r, x, are_sound, Requirement::Weights);
  const ir::Value sum = r.emit(ir::Op::sum, {sound}, along_last);
  const ir::Value possible =
      compare(ir::Op::gt, required(r, sum, compare(ir::Op::gt, sum, 0), Requirement::SomeWeight), 0);
  const ir::Value weight = r.mul(sound, r.broadcast(r.convert(possible, type), shape));
  const ir::Value race =
      r.emit(ir::Op::div, {r.convert(weight, wide), exponential(r, shape, wide, 1, generator_of(g))});
  return r.tensor(r.emit(ir::Op::argmax, {race}, along_last), at::kLong);
}

}  // namespace

void register_sampling(torch::Library& m) {
  m.impl("normal.Tensor_Tensor", normal_of_tensors);
  m.impl("normal.Tensor_float", normal_of_mean);
  m.impl("normal.float_Tensor", normal_of_deviation);
  m.impl("bernoulli_.Tensor", bernoulli_of_tensor);
  m.impl("log_normal_", log_normal_);
  m.impl("geometric_", geometric_);
  m.impl("multinomial", multinomial);
}

}  // namespace lazuli::backend
