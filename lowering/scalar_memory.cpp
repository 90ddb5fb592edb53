// Numbers in memory: the reduced floating types are widened by their bits and rounded to nearest even.
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/error.h"
#include "lowering/scalar_eval.h"

namespace lazuli::lowering {
namespace {
using ir::DType;

template <class T>
T read(const void* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
void write(void* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(uint32_t{h} << 16); }
uint16_t f32_to_bf16(float x) {
  uint32_t b = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(b >> 16 | 0x40);  // quiet, sign and upper payload kept
  return static_cast<uint16_t>((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}

double f16_to_f64(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 0x3FF;
  double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction ? std::copysign(std::nan(""), sign) : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24));
}
uint16_t f32_to_f16(float x) {
  uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return sign | 0x7E00;
  double a = std::fabs(x);
  if (a >= 65520) return sign | 0x7C00;  // halfway to the first number past the largest rounds to infinity
  int exponent = a < 0x1p-14 ? -14 : std::ilogb(a);
  // In units of the last place; a carry out of the fraction moves into the exponent by itself.
  auto ulps = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  return sign | static_cast<uint16_t>(ulps + (static_cast<uint32_t>(exponent + 14) << 10));
}

}  // namespace

Number load_number(const void* p, DType type) {
  switch (type) {
    case DType::Bool:
      return {0, read<uint8_t>(p) != 0};
    case DType::U8:
      return {0, read<uint8_t>(p)};
    case DType::I8:
      return {0, read<int8_t>(p)};
    case DType::I16:
      return {0, read<int16_t>(p)};
    case DType::I32:
      return {0, read<int32_t>(p)};
    case DType::I64:
      return {0, read<int64_t>(p)};
    case DType::F16:
      return {f16_to_f64(read<uint16_t>(p)), 0};
    case DType::BF16:
      return {bf16_to_f32(read<uint16_t>(p)), 0};
    case DType::F32:
      return {read<float>(p), 0};
    case DType::F64:
      return {read<double>(p), 0};
    default:
      throw InternalError("kernels do not load this element type");
  }
}

void store_number(void* p, DType type, Number x) {
  switch (type) {
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      return write(p, static_cast<uint8_t>(x.i));
    case DType::I16:
      return write(p, static_cast<int16_t>(x.i));
    case DType::I32:
      return write(p, static_cast<int32_t>(x.i));
    case DType::I64:
      return write(p, x.i);
    case DType::F16:
      return write(p, f32_to_f16(static_cast<float>(x.f)));
    case DType::BF16:
      return write(p, f32_to_bf16(static_cast<float>(x.f)));
    case DType::F32:
      return write(p, static_cast<float>(x.f));
    case DType::F64:
      return write(p, x.f);
    default:
      throw InternalError("kernels do not store this element type");
  }
}

}  // namespace lazuli::lowering
