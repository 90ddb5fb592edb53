#include "ir/interpret/scalar.h"
#include <limits>
#include "ir/interpret/number.h"
#include "ir/philox.h"

namespace lazuli::ir {
namespace {

// torch's rules: the remainder takes the divisor's sign, and the quotient is rounded from what is left without it.
template <class T>
T floor_mod(T a, T b) {
  T r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
template <class T>
T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  T r = std::fmod(a, b), q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(T{0}, a / b);
  T rounded = std::floor(q);
  return q - rounded > T{0.5} ? rounded + 1 : rounded;
}

template <std::floating_point T>
T arithmetic(Prim p, T a, T b, T c) {
  switch (p) {
    case Prim::add:
      return a + b;
    case Prim::sub:
      return a - b;
    case Prim::mul:
      return a * b;
    case Prim::div:
      return a / b;
    case Prim::floordiv:
      return floor_quotient(a, b);
    case Prim::mod:
      return floor_mod(a, b);
    case Prim::fmod:
      return std::fmod(a, b);
    case Prim::pow:
      return std::pow(a, b);
    case Prim::atan2:
      return std::atan2(a, b);
    case Prim::minimum:
      return a != a || a < b ? a : b;
    case Prim::maximum:
      return a != a || a > b ? a : b;
    case Prim::fma:
      return std::fma(a, b, c);
    case Prim::neg:
      return -a;
    case Prim::abs:
      return std::fabs(a);
    case Prim::sqrt:
      return std::sqrt(a);
    case Prim::rsqrt:
      return 1 / std::sqrt(a);
    case Prim::reciprocal:
      return 1 / a;
    case Prim::exp:
      return std::exp(a);
    case Prim::expm1:
      return std::expm1(a);
    case Prim::log:
      return std::log(a);
    case Prim::log1p:
      return std::log1p(a);
    case Prim::log2:
      return std::log2(a);
    case Prim::sin:
      return std::sin(a);
    case Prim::cos:
      return std::cos(a);
    case Prim::tan:
      return std::tan(a);
    case Prim::asin:
      return std::asin(a);
    case Prim::acos:
      return std::acos(a);
    case Prim::atan:
      return std::atan(a);
    case Prim::sinh:
      return std::sinh(a);
    case Prim::cosh:
      return std::cosh(a);
    case Prim::tanh:
      return std::tanh(a);
    case Prim::erf:
      return std::erf(a);
    case Prim::erfc:
      return std::erfc(a);
    case Prim::floor:
      return std::floor(a);
    case Prim::ceil:
      return std::ceil(a);
    case Prim::trunc:
      return std::trunc(a);
    case Prim::round:
      return std::nearbyint(a);
    default:
      throw InternalError(std::string(info(p).name) + " is not defined on floating types");
  }
}

template <std::integral T>
bool negative(T x) {
  if constexpr (std::is_signed_v<T>) return x < 0;
  return false;
}

template <std::integral T>
T integer_power(T base, T exponent) {
  if (negative(exponent)) return base == T(1) ? T(1) : base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (auto e = static_cast<uint64_t>(exponent); e; e >>= 1, factor *= factor)
    if (e & 1) result *= factor;
  return static_cast<T>(result);
}

// Shifts by less than 0 or by the width and more leave no bits, but the sign.
template <std::integral T>
T shift(Prim p, T a, T b) {
  constexpr uint64_t kWidth = std::is_same_v<T, bool> ? 1 : sizeof(T) * 8;
  bool inside = !negative(b) && static_cast<uint64_t>(b) < kWidth;
  if (p == Prim::shift_left) return inside ? static_cast<T>(static_cast<uint64_t>(a) << b) : T(0);
  return inside ? static_cast<T>(a >> b) : negative(a) ? T(-1) : T(0);
}

// Wraps: computed on 64 unsigned bits and cut to the width.
template <std::integral T>
T arithmetic(Prim p, T a, T b, T c) {
  auto u = [](T x) { return static_cast<uint64_t>(x); };
  bool overflows = std::is_signed_v<T> && b == T(-1);  // the quotient of the smallest number
  switch (p) {
    case Prim::add:
      return static_cast<T>(u(a) + u(b));
    case Prim::sub:
      return static_cast<T>(u(a) - u(b));
    case Prim::mul:
      return static_cast<T>(u(a) * u(b));
    case Prim::fma:
      return static_cast<T>(u(a) * u(b) + u(c));
    case Prim::neg:
      return static_cast<T>(-u(a));
    case Prim::abs:
      return negative(a) ? static_cast<T>(-u(a)) : a;
    case Prim::div:
      return b == 0 ? T(0) : overflows ? static_cast<T>(-u(a)) : static_cast<T>(a / b);
    case Prim::fmod:
      return b == 0 || overflows ? T(0) : static_cast<T>(a % b);
    case Prim::mod: {
      if (b == 0 || overflows) return 0;
      T r = static_cast<T>(a % b);
      return r != T(0) && negative(b) != negative(r) ? static_cast<T>(r + b) : r;
    }
    case Prim::floordiv: {
      if (b == 0) return 0;
      if (overflows) return static_cast<T>(-u(a));
      T q = static_cast<T>(a / b);
      return a % b != 0 && negative(a) != negative(b) ? static_cast<T>(q - 1) : q;
    }
    case Prim::pow:
      return integer_power(a, b);
    case Prim::minimum:
      return std::min(a, b);
    case Prim::maximum:
      return std::max(a, b);
    case Prim::check_index:
      return a;
    case Prim::bit_and:
      return static_cast<T>(a & b);
    case Prim::bit_or:
      return static_cast<T>(a | b);
    case Prim::bit_xor:
      return static_cast<T>(a ^ b);
    case Prim::bit_not:
      return std::is_same_v<T, bool> ? static_cast<T>(!a) : static_cast<T>(~u(a));
    case Prim::shift_left:
    case Prim::shift_right:
      return shift(p, a, b);
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round:
      return a;
    default:
      throw InternalError(std::string(info(p).name) + " is not defined on integers");
  }
}

template <class T>
bool compare(Prim p, T a, T b) {
  switch (p) {
    case Prim::eq:
      return a == b;
    case Prim::ne:
      return a != b;
    case Prim::lt:
      return a < b;
    default:
      return a <= b;
  }
}

// Out of range and NaN, which C++ leaves undefined, give what x86-64 conversion to 64 bits gives, cut to the width.
template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, bool>) return x != From(0);
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    bool fits = x >= From(-9223372036854775808.0) && x < From(9223372036854775808.0);
    return static_cast<To>(fits ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min());
  }
  return static_cast<To>(x);
}

Cell convert_cell(Cell x, DType from, DType to) {
  return dispatch(
      from, [&]<class From>() { return dispatch(to, [&]<class To>() { return cell(converted<To>(get<From>(x))); }); });
}

Cell random_cell(DType dtype, Cell seed, Cell offset, Cell index) {
  if (dtype == DType::F64) return cell(philox_f64(seed.bits, offset.bits, index.bits));
  return cell(philox_f32(seed.bits, offset.bits, index.bits));
}

Cell evaluate_node(const ScalarGraph& g, const ScalarNode& n, std::span<const Cell> cells) {
  int arity = info(n.prim).arity;
  auto argument = [&](int i) { return i < arity ? cells[n.args[i]] : Cell{}; };
  Cell a = argument(0), b = argument(1), c = argument(2);
  DType operand = g[n.args[0]].dtype;
  if (n.prim == Prim::convert) return convert_cell(a, operand, n.dtype);
  if (n.prim == Prim::select) return get<bool>(a) ? b : c;
  if (n.prim == Prim::random) return random_cell(n.dtype, a, b, c);
  if (n.prim == Prim::literal) return dispatch(n.dtype, [&]<class T>() { return cell(converted<T>(n.value)); });
  if (info(n.prim).result == PrimResult::Bool)
    return dispatch(operand, [&]<class T>() { return cell(compare(n.prim, get<T>(a), get<T>(b))); });
  return dispatch(n.dtype, [&]<class T>() { return cell(arithmetic<T>(n.prim, get<T>(a), get<T>(b), get<T>(c))); });
}

}  // namespace

Cell evaluate(const ScalarGraph& graph, uint16_t result, std::span<const Cell> arguments, std::vector<Cell>& cells) {
  cells.resize(graph.size());
  for (uint16_t i = 0; i <= result; ++i) {
    const ScalarNode& n = graph[i];
    cells[i] = n.prim == Prim::argument ? arguments[n.index] : evaluate_node(graph, n, cells);
  }
  return cells[result];
}

}  // namespace lazuli::ir
