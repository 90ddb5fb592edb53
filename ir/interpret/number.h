// Elements in memory against numbers in the compute type: what the interpreter's parts share.
#pragma once
#include <bit>
#include <cmath>
#include "ir/error.h"
#include "ir/interpret.h"

namespace lazuli::ir {

inline float from_bf16(uint16_t h) { return std::bit_cast<float>(uint32_t{h} << 16); }
inline uint16_t to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return static_cast<uint16_t>(u >> 16 | 0x40);   // quiet; sign and upper payload are kept
  return static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16);  // half to even
}
inline float from_f16(uint16_t h) {
  int exponent = h >> 10 & 31, mantissa = h & 1023;
  float magnitude = exponent == 31  ? (mantissa ? NAN : INFINITY)
                    : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                    : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}
inline uint16_t to_f16(float f) {
  uint16_t sign = std::signbit(f) ? 0x8000 : 0;
  float a = std::fabs(f);
  if (std::isnan(f)) return sign | 0x7E00;
  if (a >= 65520.0f) return sign | 0x7C00;
  int exponent = std::max(a > 0 ? std::ilogb(a) : -15, -14);  // below -14: subnormal
  auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(a, 10 - exponent)));
  // A normal number's implicit bit adds one to the exponent field, and rounding up may add another.
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + steps));
}

// Calls f.template operator()<T>() with the C++ type of a native compute type.
template <class F>
decltype(auto) dispatch(DType t, F&& f) {
  switch (t) {
    case DType::Bool:
      return f.template operator()<bool>();
    case DType::U8:
      return f.template operator()<uint8_t>();
    case DType::I8:
      return f.template operator()<int8_t>();
    case DType::I16:
      return f.template operator()<int16_t>();
    case DType::I32:
      return f.template operator()<int32_t>();
    case DType::I64:
      return f.template operator()<int64_t>();
    case DType::F64:
      return f.template operator()<double>();
    case DType::F32:
      return f.template operator()<float>();
    default:
      throw InternalError("the interpreter does not compute on " + std::string(name(t)));
  }
}

// T is the compute type of t's element type.
template <class T>
T load(const Tensor& t, int64_t i) {
  if (is_reduced_floating(t.type.dtype)) {
    uint16_t h;
    std::memcpy(&h, t.data.data() + i * 2, 2);
    return static_cast<T>(t.type.dtype == DType::BF16 ? from_bf16(h) : from_f16(h));
  }
  T x;
  std::memcpy(&x, t.data.data() + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return x;
}
template <class T>
void store(Tensor& t, int64_t i, T x) {
  if (is_reduced_floating(t.type.dtype)) {
    float f = static_cast<float>(x);
    uint16_t h = t.type.dtype == DType::BF16 ? to_bf16(f) : to_f16(f);
    std::memcpy(t.data.data() + i * 2, &h, 2);
  } else {
    std::memcpy(t.data.data() + i * static_cast<int64_t>(sizeof(T)), &x, sizeof(T));
  }
}

// Sums of floats are exact enough for any order of summation to be compared with; integers wrap.
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;

inline int64_t load_index(const Tensor& t, int64_t i) {
  return t.type.dtype == DType::I32 ? load<int32_t>(t, i) : load<int64_t>(t, i);
}
inline void copy_element(Tensor& to, int64_t i, const Tensor& from, int64_t k) {
  auto size = static_cast<size_t>(item_size(to.type.dtype));
  std::memcpy(to.data.data() + static_cast<size_t>(i) * size, from.data.data() + static_cast<size_t>(k) * size, size);
}

// Calls f(flat position, index per dimension) for every element, row-major.
template <class F>
void for_each(std::span<const int64_t> shape, F&& f) {
  Dims index(shape.size(), 0);
  int64_t count = product(shape);
  for (int64_t flat = 0; flat < count; ++flat) {
    f(flat, std::span<const int64_t>(index));
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}
inline int64_t dot(SizeSpan a, SizeSpan b) {
  int64_t sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
// Strides that walk `from` as if broadcast to `rank` trailing-aligned dimensions.
Dims broadcast_strides(std::span<const int64_t> from, size_t rank);

}  // namespace lazuli::ir
