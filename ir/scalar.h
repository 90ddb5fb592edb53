// The expression language of elementwise rows. A row's body is ordinary C++ over Scalar handles; calling it
// records a small expression graph, which the interpreter evaluates, the derivative rule differentiates and
// each target lowers. Formulas are therefore written exactly once.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>
#include "ir/dtype.h"

namespace lazuli::ir {

enum class Prim : uint8_t {
#define PRIM(name, arity, result) name,
#include "ir/scalar.def"
#undef PRIM
};
enum class PrimResult : uint8_t { Same, Bool, Attr };
struct PrimInfo {
  const char* name;
  uint8_t arity;
  PrimResult result;
};
const PrimInfo& info(Prim p);
// Division by zero and indices out of range are errors that only the numbers show: kernels find them as they run
// (lowering/nest/loop_nest.h), and where nobody looks for them the result is some number.
constexpr bool can_fail(Prim p, DType operand) {
  return is_integral(operand) &&
         (p == Prim::div || p == Prim::floordiv || p == Prim::mod || p == Prim::fmod || p == Prim::check_index);
}

struct ScalarNode {
  Prim prim;
  DType dtype;                     // the result's type
  std::array<uint16_t, 3> args{};  // earlier nodes
  uint16_t index = 0;              // of an argument
  double value = 0;                // of a literal
};

// Nodes in evaluation order. Nodes are hash-consed, so equal subexpressions are computed once.
class ScalarGraph {
 public:
  uint16_t add(ScalarNode node);
  const ScalarNode& operator[](uint16_t i) const { return nodes_[i]; }
  size_t size() const { return nodes_.size(); }
  std::span<const ScalarNode> nodes() const { return nodes_; }

 private:
  std::vector<ScalarNode> nodes_;
};

struct Scalar {
  ScalarGraph* graph = nullptr;
  uint16_t id = 0;
  DType dtype() const { return (*graph)[id].dtype; }
};

Scalar argument(ScalarGraph& g, uint16_t index, DType dtype);
Scalar literal(ScalarGraph& g, double value, DType dtype);
Scalar convert(Scalar x, DType to);
Scalar apply(Prim p, Scalar a);
Scalar apply(Prim p, Scalar a, Scalar b);  // operands of different types: a plain number takes the other's type
Scalar apply(Prim p, Scalar a, Scalar b, Scalar c);
Scalar like(Scalar x, double value);  // a literal of x's type
// Uniform in [0, 1) on `dtype` (F32 or F64), from a counter-based generator.
Scalar random(Scalar seed, Scalar offset, Scalar index, DType dtype);

#define LAZULI_BINARY(op, prim)                                                     \
  inline Scalar operator op(Scalar a, Scalar b) { return apply(Prim::prim, a, b); } \
  inline Scalar operator op(Scalar a, double b) { return a op like(a, b); }         \
  inline Scalar operator op(double a, Scalar b) { return like(b, a) op b; }
LAZULI_BINARY(+, add)
LAZULI_BINARY(-, sub)
LAZULI_BINARY(*, mul)
LAZULI_BINARY(/, div)
LAZULI_BINARY(==, eq)
LAZULI_BINARY(!=, ne)
LAZULI_BINARY(<, lt)
LAZULI_BINARY(<=, le)
#undef LAZULI_BINARY
inline Scalar operator>(Scalar a, Scalar b) { return b < a; }
inline Scalar operator>(Scalar a, double b) { return like(a, b) < a; }
inline Scalar operator>=(Scalar a, Scalar b) { return b <= a; }
inline Scalar operator>=(Scalar a, double b) { return like(a, b) <= a; }
inline Scalar operator-(Scalar a) { return apply(Prim::neg, a); }
inline Scalar operator!(Scalar a) { return apply(Prim::bit_not, convert(a, DType::Bool)); }
inline Scalar operator&(Scalar a, Scalar b) { return apply(Prim::bit_and, a, b); }
inline Scalar operator|(Scalar a, Scalar b) { return apply(Prim::bit_or, a, b); }
inline Scalar operator^(Scalar a, Scalar b) { return apply(Prim::bit_xor, a, b); }

#define LAZULI_UNARY(f) \
  inline Scalar f(Scalar x) { return apply(Prim::f, x); }
LAZULI_UNARY(abs)
LAZULI_UNARY(sqrt)
LAZULI_UNARY(rsqrt)
LAZULI_UNARY(reciprocal)
LAZULI_UNARY(exp)
LAZULI_UNARY(expm1)
LAZULI_UNARY(log)
LAZULI_UNARY(log1p)
LAZULI_UNARY(log2)
LAZULI_UNARY(sin)
LAZULI_UNARY(cos)
LAZULI_UNARY(tan)
LAZULI_UNARY(asin)
LAZULI_UNARY(acos)
LAZULI_UNARY(atan)
LAZULI_UNARY(sinh)
LAZULI_UNARY(cosh)
LAZULI_UNARY(tanh)
LAZULI_UNARY(erf)
LAZULI_UNARY(erfc)
LAZULI_UNARY(floor)
LAZULI_UNARY(ceil)
LAZULI_UNARY(trunc)
LAZULI_UNARY(round)
#undef LAZULI_UNARY
// Of equals, as 0 and -0 are, the first.
inline Scalar minimum(Scalar a, Scalar b) { return apply(Prim::minimum, a, b); }
inline Scalar maximum(Scalar a, Scalar b) { return apply(Prim::maximum, a, b); }
inline Scalar minimum(Scalar a, double b) { return minimum(a, like(a, b)); }
inline Scalar maximum(Scalar a, double b) { return maximum(a, like(a, b)); }
inline Scalar pow(Scalar a, Scalar b) { return apply(Prim::pow, a, b); }
inline Scalar atan2(Scalar a, Scalar b) { return apply(Prim::atan2, a, b); }
inline Scalar fmod(Scalar a, Scalar b) { return apply(Prim::fmod, a, b); }
inline Scalar mod(Scalar a, Scalar b) { return apply(Prim::mod, a, b); }
inline Scalar floordiv(Scalar a, Scalar b) { return apply(Prim::floordiv, a, b); }
inline Scalar fma(Scalar a, Scalar b, Scalar c) { return apply(Prim::fma, a, b, c); }
inline Scalar select(Scalar c, Scalar a, Scalar b) { return apply(Prim::select, c, a, b); }
inline Scalar select(Scalar c, Scalar a, double b) { return select(c, a, like(a, b)); }
inline Scalar select(Scalar c, double a, Scalar b) { return select(c, like(b, a), b); }

// `seed` times the derivative of `y` with respect to argument node `x`, as an expression in the same graph: forward
// mode over the primitives (Griewank and Walther, Evaluating Derivatives, chapter 3). A select's tangent selects
// between its branches' tangents, so that an infinite derivative of the branch not taken does not leak as 0 * inf.
// Discrete primitives (floor, comparisons, bit operations) contribute nothing; where nothing flows the result is a
// literal 0.
Scalar differentiate(Scalar y, Scalar x, Scalar seed);

}  // namespace lazuli::ir
