// Forward-mode differentiation of scalar expressions.
#include <optional>
#include "ir/scalar.h"

namespace lazuli::ir {
namespace {

// An absent tangent is zero, and a literal 1 is not multiplied by: derivatives are free of dead arithmetic.
using Tangent = std::optional<Scalar>;

bool is_literal(Scalar x, double value) {
  const ScalarNode& n = (*x.graph)[x.id];
  return n.prim == Prim::literal && n.value == value;
}
Scalar times(Scalar t, Scalar factor) { return is_literal(t, 1) ? factor : t * factor; }

Tangent operator+(Tangent a, Tangent b) { return a && b ? Tangent(*a + *b) : a ? a : b; }
Tangent operator-(Tangent t) { return !t ? t : is_literal(*t, 1) ? Tangent(like(*t, -1)) : Tangent(-*t); }
Tangent operator-(Tangent a, Tangent b) { return a && b ? Tangent(*a - *b) : a ? a : -b; }
Tangent operator*(Tangent t, Scalar factor) { return t ? Tangent(times(*t, factor)) : t; }
Tangent operator*(Tangent t, double factor) { return t ? Tangent(times(*t, like(*t, factor))) : t; }
Tangent operator/(Tangent t, Scalar divisor) { return t ? Tangent(*t / divisor) : t; }
Tangent choose(Scalar c, Tangent a, Tangent b) {
  if (!a && !b) return {};
  Scalar zero = like(a ? *a : *b, 0);
  return select(c, a ? *a : zero, b ? *b : zero);
}
Scalar sign_of(Scalar x) { return select(x < 0.0, -1.0, select(x > 0.0, 1.0, x)); }

// Where both are equal each gets half, as in torch.
Tangent extremum(Scalar a_wins, Scalar a, Scalar b, Tangent ta, Tangent tb) {
  return choose(a == b, (ta + tb) * 0.5, choose(a_wins, ta, tb));
}
// 0 ** b counts as constant in the exponent for b >= 0, and a ** 0 as constant in the base.
Tangent power(Scalar y, Scalar a, Scalar b, Tangent ta, Tangent tb) {
  Tangent base = ta ? choose(b == 0.0, {}, ta * (b * pow(a, b - 1.0))) : ta;
  Tangent exponent = tb ? choose((a == 0.0) & (b >= 0.0), {}, tb * (y * log(a))) : tb;
  return base + exponent;
}

struct Operands {
  Scalar y, a, b, c;
  Tangent ta, tb, tc;
};

Tangent binary(Prim p, const Operands& o) {
  auto [y, a, b, c, ta, tb, tc] = o;
  switch (p) {
    case Prim::add:
      return ta + tb;
    case Prim::sub:
      return ta - tb;
    case Prim::mul:
      return ta * b + tb * a;
    case Prim::div:
      return ta / b - tb * (y / b);
    case Prim::mod:
      return ta - tb * floordiv(a, b);
    case Prim::fmod:
      return ta - tb * trunc(a / b);
    case Prim::pow:
      return power(y, a, b, ta, tb);
    case Prim::atan2:
      return (ta * b - tb * a) / (a * a + b * b);
    case Prim::minimum:
      return extremum(a < b, a, b, ta, tb);
    case Prim::maximum:
      return extremum(a > b, a, b, ta, tb);
    case Prim::fma:
      return ta * b + tb * a + tc;
    case Prim::select:
      return choose(a, tb, tc);
    default:
      return {};  // discrete
  }
}

Tangent unary(Prim p, const Operands& o) {
  Scalar y = o.y, x = o.a;
  Tangent t = o.ta;
  switch (p) {
    case Prim::convert:
      return is_floating(y.dtype()) ? Tangent(convert(*t, y.dtype())) : Tangent();
    case Prim::neg:
      return -t;
    case Prim::abs:
      return t * sign_of(x);
    case Prim::sqrt:
      return t / (2.0 * y);
    case Prim::rsqrt:
      return t * (-0.5 * (y * y * y));
    case Prim::reciprocal:
      return t * -(y * y);
    case Prim::exp:
      return t * y;
    case Prim::expm1:
      return t * exp(x);  // y + 1 would lose what is left of it far below 0
    case Prim::log:
      return t / x;
    case Prim::log1p:
      return t / (x + 1.0);
    case Prim::log2:
      return t / (x * 0.69314718055994530942);
    case Prim::sin:
      return t * cos(x);
    case Prim::cos:
      return t * -sin(x);
    case Prim::tan:
      return t * (1.0 + y * y);
    case Prim::asin:
      return t * rsqrt(1.0 - x * x);
    case Prim::acos:
      return t * -rsqrt(1.0 - x * x);
    case Prim::atan:
      return t / (x * x + 1.0);
    case Prim::sinh:
      return t * cosh(x);
    case Prim::cosh:
      return t * sinh(x);
    case Prim::tanh:
      return t * (1.0 - y * y);
    case Prim::erf:
      return t * (1.12837916709551257390 * exp(-(x * x)));
    case Prim::erfc:
      return t * (-1.12837916709551257390 * exp(-(x * x)));
    default:
      return {};  // discrete
  }
}

// seed * tangent, torch's way: one product at the end, so that an infinite seed meets the whole derivative and not its
// terms; where a branch is masked nothing is multiplied; and a quotient 1 / d divides.
Scalar scaled(Scalar tangent, Scalar seed) {
  ScalarGraph& g = *tangent.graph;
  const ScalarNode n = g[tangent.id];
  if (is_literal(tangent, 0)) return tangent;
  if (n.prim == Prim::select)
    return select({&g, n.args[0]}, scaled({&g, n.args[1]}, seed), scaled({&g, n.args[2]}, seed));
  if (n.prim == Prim::div && is_literal({&g, n.args[0]}, 1)) return seed / Scalar{&g, n.args[1]};
  return is_literal(tangent, -1) ? -seed : times(tangent, seed);
}

}  // namespace

Scalar differentiate(Scalar y, Scalar x, Scalar seed) {
  ScalarGraph& g = *y.graph;
  std::vector<Tangent> tangents(y.id + 1u);
  for (uint16_t i = x.id; i <= y.id; ++i) {  // arguments come before their uses, so nothing before x depends on it
    const ScalarNode n = g[i];
    if (i == x.id) {
      tangents[i] = like(x, 1);
      continue;
    }
    int arity = info(n.prim).arity;
    auto arg = [&](int k) { return Scalar{&g, n.args[k < arity ? k : 0]}; };
    auto tangent = [&](int k) { return k < arity && n.args[k] < i ? tangents[n.args[k]] : Tangent(); };
    Operands o{{&g, i}, arg(0), arg(1), arg(2), tangent(0), tangent(1), tangent(2)};
    if (!o.ta && !o.tb && !o.tc) continue;
    if (is_floating(n.dtype)) tangents[i] = arity == 1 ? unary(n.prim, o) : binary(n.prim, o);
  }
  return tangents[y.id] ? convert(scaled(*tangents[y.id], seed), x.dtype()) : literal(g, 0, x.dtype());
}

}  // namespace lazuli::ir
