#include "lowering/targets/primitives.h"

#include <string>

#include "ir/error.h"
#include "lowering/targets/math/math.h"
#include "lowering/targets/memory_types.h"

namespace lazuli::lowering {
namespace {
using ir::DType;
using ir::Prim;

[[noreturn]] void no_meaning(Prim prim, DType type) {
  throw InternalError(std::string("no code for primitive ") + ir::info(prim).name + " on " +
                      std::string(ir::name(type)));
}

Vec unsigned_less(Vec a, Vec b, bool or_equal) {
  return a.with(or_equal ? a.b().CreateICmpULE(a.v, b.v) : a.b().CreateICmpULT(a.v, b.v));
}

Vec emit_floating(Prim prim, DType type, std::span<const Vec> x) {
  const Vec a = x[0], b = x.size() > 1 ? x[1] : x[0];
  switch (prim) {
    case Prim::add:
      return a + b;
    case Prim::sub:
      return a - b;
    case Prim::mul:
      return a * b;
    case Prim::div:
      return a / b;
    case Prim::floordiv:
      return floating_floor_divide(a, b);
    case Prim::mod:
      return floating_modulo(a, b);
    case Prim::fmod:
      return floating_fmod(a, b);
    case Prim::pow:
      return math::pow(a, b);
    case Prim::atan2:
      return math::atan2(a, b);
    case Prim::minimum:
      return select(is_nan(b), b, min_or_second(b, a));  // of equals, zeros of two signs, the first
    case Prim::maximum:
      return select(is_nan(b), b, max_or_second(b, a));
    case Prim::fma:
      return fma(a, b, x[2]);
    case Prim::neg:
      return -a;
    case Prim::abs:
      return abs(a);
    case Prim::sqrt:
      return sqrt(a);
    case Prim::rsqrt:
      return number(a, 1) / sqrt(a);
    case Prim::reciprocal:
      return number(a, 1) / a;
    case Prim::exp:
      return math::exp(a);
    case Prim::expm1:
      return math::expm1(a);
    case Prim::log:
      return math::log(a);
    case Prim::log1p:
      return math::log1p(a);
    case Prim::log2:
      return math::log2(a);
    case Prim::sin:
      return math::sin(a);
    case Prim::cos:
      return math::cos(a);
    case Prim::tan:
      return math::tan(a);
    case Prim::asin:
      return math::asin(a);
    case Prim::acos:
      return math::acos(a);
    case Prim::atan:
      return math::atan(a);
    case Prim::sinh:
      return math::sinh(a);
    case Prim::cosh:
      return math::cosh(a);
    case Prim::tanh:
      return math::tanh(a);
    case Prim::erf:
      return math::erf(a);
    case Prim::erfc:
      return math::erfc(a);
    case Prim::floor:
      return floor(a);
    case Prim::ceil:
      return ceil(a);
    case Prim::trunc:
      return trunc(a);
    case Prim::round:
      return round_even(a);
    case Prim::round_bf16:
      return round_to(a, DType::BF16);
    case Prim::round_bf16_result:
      return round_bf16_result(a);
    case Prim::round_f16:
      return round_to(a, DType::F16);
    case Prim::eq:
      return eq(a, b);
    case Prim::ne:
      return ne(a, b);
    case Prim::lt:
      return lt(a, b);
    case Prim::le:
      return le(a, b);
    default:
      no_meaning(prim, type);
  }
}

Vec emit_integral(Prim prim, DType type, std::span<const Vec> x) {
  const Vec a = x[0], b = x.size() > 1 ? x[1] : x[0];
  const bool is_signed = ir::is_signed(type);
  auto less = [&](Vec p, Vec q, bool or_equal = false) {
    return is_signed ? (or_equal ? le(p, q) : lt(p, q)) : unsigned_less(p, q, or_equal);
  };
  switch (prim) {
    case Prim::add:
      return a + b;
    case Prim::sub:
      return a - b;
    case Prim::mul:
      return a * b;
    case Prim::fma:
      return a * b + x[2];
    case Prim::div:
      return integer_divide(a, b, is_signed);
    case Prim::fmod:
      return integer_remainder(a, b, is_signed);
    case Prim::mod:
      return integer_floor_modulo(a, b, is_signed);
    case Prim::floordiv:
      return integer_floor_divide(a, b, is_signed);
    case Prim::pow:
      return integer_power(a, b, is_signed);
    case Prim::minimum:
      return select(less(b, a), b, a);
    case Prim::maximum:
      return select(less(a, b), b, a);
    case Prim::neg:
      return -a;
    case Prim::abs:
      return is_signed ? select(lt(a, 0), -a, a) : a;
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round:
      return a;
    case Prim::eq:
      return eq(a, b);
    case Prim::ne:
      return ne(a, b);
    case Prim::lt:
      return less(a, b);
    case Prim::le:
      return less(a, b, true);
    case Prim::bit_and:
      return a & b;
    case Prim::bit_or:
      return a | b;
    case Prim::bit_xor:
      return a ^ b;
    case Prim::bit_not:
      return ~a;
    case Prim::shift_left:
      return integer_shift_left(a, b);
    case Prim::shift_right:
      return integer_shift_right(a, b, is_signed);
    default:
      no_meaning(prim, type);
  }
}

// One bit per lane: what C++ arithmetic on 0 and 1 gives, converted back.
Vec emit_bool(Prim prim, std::span<const Vec> x) {
  const Vec a = x[0], b = x.size() > 1 ? x[1] : x[0];
  switch (prim) {
    case Prim::add:
    case Prim::maximum:
    case Prim::bit_or:
      return a | b;
    case Prim::sub:
    case Prim::ne:
    case Prim::bit_xor:
      return a ^ b;
    case Prim::mul:
    case Prim::div:
    case Prim::floordiv:
    case Prim::minimum:
    case Prim::bit_and:
      return a & b;
    case Prim::fma:
      return (a & b) | x[2];
    case Prim::fmod:
    case Prim::mod:
      return number(a, 0);
    case Prim::pow:
      return a | ~b;
    case Prim::shift_left:
    case Prim::shift_right:
      return a & ~b;
    case Prim::eq:
      return ~(a ^ b);
    case Prim::lt:
      return ~a & b;
    case Prim::le:
      return ~a | b;
    case Prim::bit_not:
      return ~a;
    case Prim::neg:
    case Prim::abs:
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round:
      return a;
    default:
      no_meaning(prim, DType::Bool);
  }
}

}  // namespace

Vec emit_literal(VectorIR& ir, double value, DType type) {
  llvm::Type* t = ir.type(type);
  if (ir::is_floating(type))
    return {&ir, llvm::ConstantFP::get(t, type == DType::F32 ? static_cast<float>(value) : value)};
  return {&ir, llvm::ConstantInt::get(
                   t, type == DType::Bool ? value != 0 : static_cast<uint64_t>(static_cast<int64_t>(value)), true)};
}

Vec emit_convert(Vec x, DType from, DType to) {
  if (from == to) return x;
  const bool from_signed = ir::is_signed(from);
  if (to == DType::Bool) return ne(x, 0);
  llvm::Type* element = x.ir->element(to);
  if (from == DType::Bool && ir::is_floating(to)) {
    Vec one{x.ir, llvm::ConstantFP::get(x.ir->of(element), 1)};
    return select(x, one, 0);
  }
  if (ir::is_floating(from)) {
    if (ir::is_floating(to)) return to == DType::F64 ? to_f64(x) : to_f32(x);
    // The narrow types go through int32, as C++ compilers for x86 do it: that fixes what out of range gives.
    if (to == DType::I64) return to_integer(x, 64);
    return resize(to_integer(x, 32), element->getIntegerBitWidth(), true);
  }
  if (ir::is_floating(to)) return to_floating(x, element, from_signed);
  return resize(x, element->getIntegerBitWidth(), from_signed);
}

Vec emit_primitive(Prim prim, DType operand, DType result, std::span<const Vec> x) {
  switch (prim) {
    case Prim::convert:
      return emit_convert(x[0], operand, result);
    case Prim::select:
      return select(x[0], x[1], x[2]);
    case Prim::random:
      return emit_random(x[0], x[1], x[2], result);
    default:
      break;
  }
  if (operand == DType::Bool) return emit_bool(prim, x);
  return ir::is_floating(operand) ? emit_floating(prim, operand, x) : emit_integral(prim, operand, x);
}

}  // namespace lazuli::lowering
