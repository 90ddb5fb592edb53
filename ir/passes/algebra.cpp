// Identities of arithmetic that hold exactly: the result's bits are those of the original.
#include <cmath>
#include "ir/passes/simplify.h"

namespace lazuli::ir {
namespace {

// Operand i in the result's shape.
Value operand(const Candidate& c, size_t i) {
  return c.type(i).dtype == c.result().dtype ? c.b().broadcast(c.in[i], c.result().shape) : Value{};
}

// A zero that leaves every number as it is: 0 makes -0 a 0 when added, and so does -0 when subtracted.
bool is_neutral(const Candidate& c, size_t i, bool negative) {
  double zero;
  return constant_value(c.r.to(), c.in[i], zero) && zero == 0 &&
         (!is_floating(c.type(i).dtype) || std::signbit(zero) == negative);
}
Value add_zero(const Candidate& c) {
  if (is_neutral(c, 1, true)) return operand(c, 0);
  return is_neutral(c, 0, true) ? operand(c, 1) : Value{};
}
Value subtract_zero(const Candidate& c) { return is_neutral(c, 1, false) ? operand(c, 0) : Value{}; }

Value multiply_by_one(const Candidate& c) {
  for (size_t i : {0, 1}) {
    if (c.is_constant(i, 1)) return operand(c, 1 - i);
    if (c.is_constant(i, -1) && is_floating(c.result().dtype)) return c.b().neg(operand(c, 1 - i));
  }
  return {};
}

// A product of one term for each element: a multiplication, which is fused with what is around it.
Value outer_product(const Candidate& c) {
  const bool is_outer = is_floating(c.result().dtype) && c.type(0).shape.back() == 1;
  return is_outer ? c.b().mul(c.in[0], c.in[1]) : Value{};
}

bool is_reduced(const Graph& g, Value v) {
  while (is_view(g[v].op)) v = g[v].inputs[0];
  return is_reduction(g[v].op);
}

// The reciprocal of a power of two is exact, and multiplying is faster. What divides a reduction's result is most often
// a count of elements: one operation for every count means one kernel for every size.
Value divide_by_constant(const Candidate& c) {
  double divisor;
  if (!constant_value(c.r.to(), c.in[1], divisor) || !is_floating(c.result().dtype)) return {};
  if (divisor == 1) return operand(c, 0);
  int exponent;
  if (std::abs(std::frexp(divisor, &exponent)) != 0.5 || std::abs(exponent) > 14) return {};
  if (is_reduced(c.r.to(), c.in[0])) return {};
  return c.b().broadcast(c.b().mul(c.in[0], 1 / divisor), c.result().shape);
}

Value double_negation(const Candidate& c) { return c.producer(0).op == c.node.op ? c.producer(0).inputs[0] : Value{}; }

Value double_not(const Candidate& c) {
  const Node& inner = c.producer(0);
  return inner.op == c.node.op && c.r.to().type(inner.inputs[0]).dtype == DType::Bool ? inner.inputs[0] : Value{};
}

Value convert_chain(const Candidate& c) {
  if (c.type(0).dtype == c.result().dtype) return c.in[0];
  const Node& inner = c.producer(0);
  if (inner.op != Op::convert) return {};
  Value x = inner.inputs[0];
  return preserves(c.r.to().type(x).dtype, c.type(0).dtype) ? c.b().convert(x, c.result().dtype) : Value{};
}

// What torch computes too for these exponents.
Value small_power(const Candidate& c) {
  double exponent;
  Value x = c.in[0];
  if (!constant_value(c.r.to(), c.in[1], exponent) || c.type(0).shape != c.result().shape) return {};
  GraphBuilder& b = c.b();
  if (exponent == 0) return b.full(c.result().shape, 1, c.result().dtype);
  if (exponent == 1) return x;
  if (exponent == 2) return b.mul(x, x);
  if (exponent == 3) return b.mul(b.mul(x, x), x);
  if (!is_floating(c.result().dtype)) return {};
  if (exponent == 0.5) return b.emit(Op::sqrt, {x});
  if (exponent == -0.5) return b.emit(Op::rsqrt, {x});
  if (exponent == -1) return b.emit(Op::reciprocal, {x});
  if (exponent == -2) return b.emit(Op::reciprocal, {b.mul(x, x)});
  return {};
}

Value known_condition(const Candidate& c) {
  if (c.in[1] == c.in[2]) return operand(c, 1);
  double condition;
  if (!constant_value(c.r.to(), c.in[0], condition)) return {};
  return operand(c, condition != 0 ? 1 : 2);
}

// A range that stays inside, under any view, needs no test.
Value known_position(const Candidate& c) {
  const Node* size = constant_node(c.r.to(), c.in[1]);
  if (!size) return {};
  Value v = c.in[0];
  while (is_view(c.r.to()[v].op) && c.r.to()[v].op != Op::bitcast) v = c.r.to()[v].inputs[0];
  const Node& n = c.r.to()[v];
  return n.op == Op::iota && n.types[0].numel() <= size->attrs.size(0) ? operand(c, 0) : Value{};
}

// Derivatives have been taken by now.
Value attached(const Candidate& c) { return operand(c, 0); }

constexpr RuleEntry kRules[] = {
    {Op::add, add_zero},           {Op::sub, subtract_zero},           {Op::mul, multiply_by_one},
    {Op::matmul, outer_product},   {Op::div, divide_by_constant},      {Op::neg, double_negation},
    {Op::logical_not, double_not}, {Op::bitwise_not, double_negation}, {Op::convert, convert_chain},
    {Op::pow, small_power},        {Op::where, known_condition},       {Op::index_position, known_position},
    {Op::detach, attached},        {Op::stands_for, attached},
};

}  // namespace

std::span<const RuleEntry> algebra_rules() { return kRules; }

Value drop_broadcasts(const Candidate& c) {
  Value plain[8];
  if (c.in.size() > std::size(plain)) return {};
  bool any = false;
  for (size_t i = 0; i < c.in.size(); ++i) {
    plain[i] = c.in[i];
    if (c.producer(i).op != Op::broadcast) continue;
    plain[i] = c.producer(i).inputs[0];
    Dims shape;
    for (size_t k = 0; k < c.in.size(); ++k)
      shape = broadcast_shapes(shape, c.r.to().type(k <= i ? plain[k] : c.in[k]).shape);
    if (shape == c.result().shape)
      any = true;
    else
      plain[i] = c.in[i];
  }
  return any ? c.b().emit(c.node.op, std::span<const Value>(plain, c.in.size()), c.node.attrs) : Value{};
}

}  // namespace lazuli::ir
