#include "ir/interpret/scalar.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include "ir/error.h"
#include "ir/philox.h"

namespace lazuli::ir {
namespace {

double rounded(double x, DType t) { return t == DType::F32 ? static_cast<double>(static_cast<float>(x)) : x; }

int64_t wrapped(int64_t x, DType t) {
  switch (t) {
    case DType::Bool:
      return x & 1;
    case DType::U8:
      return static_cast<uint8_t>(x);
    case DType::I8:
      return static_cast<int8_t>(x);
    case DType::I16:
      return static_cast<int16_t>(x);
    case DType::I32:
      return static_cast<int32_t>(x);
    default:
      return x;
  }
}

// As x86 converts: through int32 for the narrower types, and to the smallest integer when out of range.
int64_t truncated(double x, DType to) {
  if (to == DType::I64)
    return x >= -0x1p63 && x < 0x1p63 ? static_cast<int64_t>(x) : std::numeric_limits<int64_t>::min();
  double t = std::trunc(x);
  return wrapped(t >= -0x1p31 && t < 0x1p31 ? static_cast<int64_t>(t) : -(int64_t{1} << 31), to);
}

// Torch's c10::div_floor_floating.
double floor_divide(double a, double b, DType t) {
  if (b == 0) return rounded(a / b, t);
  double m = std::fmod(a, b);
  double q = rounded(rounded(a - m, t) / b, t);
  if (m != 0 && (b < 0) != (m < 0)) q = rounded(q - 1, t);
  if (q == 0) return std::copysign(0.0, a / b);
  double f = std::floor(q);
  return rounded(q - f, t) > 0.5 ? rounded(f + 1, t) : f;
}

double modulo(double a, double b, DType t) {
  double m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? rounded(m + b, t) : m;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
  uint64_t r = 1, b = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, b *= b)
    if (exponent & 1) r *= b;
  return static_cast<int64_t>(r);
}

int64_t divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t floor_modulo(int64_t a, int64_t b) {
  int64_t m = remainder(a, b);
  return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

int64_t shift(int64_t a, int64_t n, DType t, bool left) {
  const int64_t width = item_size(t) * 8;
  if (left) return n < 0 || n >= width ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << n);
  return n < 0 || n >= width ? (a < 0 ? -1 : 0) : a >> n;
}

Number evaluate_floating(Prim prim, DType t, const Number* x) {
  const double a = x[0].f, b = x[1].f, c = x[2].f;
  auto number = [t](double v) { return Number{rounded(v, t), 0}; };
  auto truth = [](bool v) { return Number{0, v}; };
  switch (prim) {
    case Prim::add:
      return number(a + b);
    case Prim::sub:
      return number(a - b);
    case Prim::mul:
      return number(a * b);
    case Prim::div:
      return number(a / b);
    case Prim::floordiv:
      return number(floor_divide(a, b, t));
    case Prim::mod:
      return number(modulo(a, b, t));
    case Prim::fmod:
      return number(std::fmod(a, b));
    case Prim::pow:
      return number(std::pow(a, b));
    case Prim::atan2:
      return number(std::atan2(a, b));
    case Prim::minimum:
      return number(std::isnan(a) || a <= b ? a : b);
    case Prim::maximum:
      return number(std::isnan(a) || a >= b ? a : b);
    case Prim::fma:
      return t == DType::F32 ? Number{std::fmaf(float(a), float(b), float(c)), 0} : Number{std::fma(a, b, c), 0};
    case Prim::neg:
      return number(-a);
    case Prim::abs:
      return number(std::fabs(a));
    case Prim::sqrt:
      return number(std::sqrt(a));
    case Prim::rsqrt:
      return number(1 / rounded(std::sqrt(a), t));
    case Prim::reciprocal:
      return number(1 / a);
    case Prim::exp:
      return number(std::exp(a));
    case Prim::expm1:
      return number(std::expm1(a));
    case Prim::log:
      return number(std::log(a));
    case Prim::log1p:
      return number(std::log1p(a));
    case Prim::log2:
      return number(std::log2(a));
    case Prim::sin:
      return number(std::sin(a));
    case Prim::cos:
      return number(std::cos(a));
    case Prim::tan:
      return number(std::tan(a));
    case Prim::asin:
      return number(std::asin(a));
    case Prim::acos:
      return number(std::acos(a));
    case Prim::atan:
      return number(std::atan(a));
    case Prim::sinh:
      return number(std::sinh(a));
    case Prim::cosh:
      return number(std::cosh(a));
    case Prim::tanh:
      return number(std::tanh(a));
    case Prim::erf:
      return number(std::erf(a));
    case Prim::erfc:
      return number(std::erfc(a));
    case Prim::floor:
      return number(std::floor(a));
    case Prim::ceil:
      return number(std::ceil(a));
    case Prim::trunc:
      return number(std::trunc(a));
    case Prim::round:
      return number(std::nearbyint(a));
    case Prim::round_bf16:
    case Prim::round_bf16_result:
    case Prim::round_f16: {
      char memory[2];
      const DType narrow = prim == Prim::round_f16 ? DType::F16 : DType::BF16;
      store_number(memory, narrow, x[0]);
      return load_number(memory, narrow);
    }
    case Prim::eq:
      return truth(a == b);
    case Prim::ne:
      return truth(a != b);
    case Prim::lt:
      return truth(a < b);
    case Prim::le:
      return truth(a <= b);
    default:
      break;
  }
  throw InternalError(std::string("no floating-point meaning of primitive ") + info(prim).name);
}

// In unsigned arithmetic, so that overflow wraps. On Bool this makes + and - exclusive or, and * and.
Number evaluate_integral(Prim prim, DType t, const Number* x) {
  const int64_t a = x[0].i, b = x[1].i;
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b), uc = static_cast<uint64_t>(x[2].i);
  auto number = [t](auto v) { return Number{0, wrapped(static_cast<int64_t>(v), t)}; };
  switch (prim) {
    case Prim::add:
      return t == DType::Bool ? number(a | b) : number(ua + ub);
    case Prim::sub:
      return number(ua - ub);
    case Prim::mul:
      return number(ua * ub);
    case Prim::fma:
      return t == DType::Bool ? number((a & b) | x[2].i) : number(ua * ub + uc);
    case Prim::div:
      return number(divide(a, b));
    case Prim::fmod:
      return number(remainder(a, b));
    case Prim::mod:
      return number(floor_modulo(a, b));
    case Prim::floordiv:
      return number(static_cast<uint64_t>(divide(a, b)) - (floor_modulo(a, b) != remainder(a, b)));
    case Prim::pow:
      return number(integer_power(a, b));
    case Prim::check_index:
      return x[0];
    case Prim::minimum:
      return number(a < b ? a : b);
    case Prim::maximum:
      return number(a > b ? a : b);
    case Prim::neg:
      return number(0 - ua);
    case Prim::abs:
      return number(a < 0 ? 0 - ua : ua);
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round:
      return x[0];
    case Prim::eq:
      return {0, a == b};
    case Prim::ne:
      return {0, a != b};
    case Prim::lt:
      return {0, a < b};
    case Prim::le:
      return {0, a <= b};
    case Prim::bit_and:
      return number(a & b);
    case Prim::bit_or:
      return number(a | b);
    case Prim::bit_xor:
      return number(a ^ b);
    case Prim::bit_not:
      return number(~a);
    case Prim::shift_left:
      return number(shift(a, b, t, true));
    case Prim::shift_right:
      return number(shift(a, b, t, false));
    default:
      break;
  }
  throw InternalError(std::string("no integer meaning of primitive ") + info(prim).name);
}

}  // namespace

Number literal_number(double value, DType type) {
  if (is_floating(type)) return {rounded(value, type), 0};
  return {0, type == DType::Bool ? value != 0 : wrapped(static_cast<int64_t>(value), type)};
}

Number convert_number(Number x, DType from, DType to) {
  if (is_floating(from)) {
    if (is_floating(to)) return {rounded(x.f, to), 0};
    return {0, to == DType::Bool ? x.f != 0 : truncated(x.f, to)};
  }
  if (to == DType::Bool) return {0, x.i != 0};
  if (!is_floating(to)) return {0, wrapped(x.i, to)};
  return {to == DType::F32 ? static_cast<float>(x.i) : static_cast<double>(x.i), 0};
}

Number evaluate(Prim prim, DType operand, DType result, const Number* args) {
  switch (prim) {
    case Prim::convert:
      return convert_number(args[0], operand, result);
    case Prim::select:
      return args[0].i ? args[1] : args[2];
    case Prim::random: {
      uint64_t seed = args[0].i, offset = args[1].i, index = args[2].i;
      return {result == DType::F32 ? philox_f32(seed, offset, index) : philox_f64(seed, offset, index), 0};
    }
    default: {
      Number three[3];  // as many as any primitive has
      std::copy_n(args, info(prim).arity, three);
      return is_floating(operand) ? evaluate_floating(prim, operand, three) : evaluate_integral(prim, operand, three);
    }
  }
}

}  // namespace lazuli::ir
