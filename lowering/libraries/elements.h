// Element types as C++ types, so that the hand-written routines are written once for all native dtypes.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include "ir/dtype.h"
#include "ir/error.h"

namespace lazuli::lowering {

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) : bits(round(value)) {}
  static uint16_t round(float value) {  // to nearest even; NaN stays NaN
    const uint32_t u = std::bit_cast<uint32_t>(value);
    return value != value ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
using Float16 = _Float16;

// What arithmetic on T is done in.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>, float, T>;

template <class T>
inline constexpr bool is_floating_element =
    std::is_floating_point_v<T> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

// to = from, converted. Unlike the assignment of a BFloat16 object, GCC vectorizes this.
template <class T, class C>
inline void store_element(T& to, C from) {
  if constexpr (std::is_same_v<T, BFloat16> && !std::is_same_v<C, BFloat16>)
    to.bits = BFloat16::round(static_cast<float>(from));
  else if constexpr (std::is_same_v<T, BFloat16>)
    to.bits = from.bits;
  else
    to = static_cast<T>(from);
}

// Calls f(T{}) with the element type of `dtype`; Bool is bool, whose sums are logical or, as in C++.
template <class F>
decltype(auto) with_element_type(ir::DType dtype, F&& f) {
  switch (dtype) {
    case ir::DType::Bool:
      return f(bool{});
    case ir::DType::U8:
      return f(uint8_t{});
    case ir::DType::I8:
      return f(int8_t{});
    case ir::DType::I16:
      return f(int16_t{});
    case ir::DType::I32:
      return f(int32_t{});
    case ir::DType::I64:
      return f(int64_t{});
    case ir::DType::F16:
      return f(Float16{});
    case ir::DType::BF16:
      return f(BFloat16{});
    case ir::DType::F32:
      return f(float{});
    case ir::DType::F64:
      return f(double{});
    default:
      throw InternalError("no kernel computes on " + std::string(ir::name(dtype)));
  }
}

template <class F>
decltype(auto) with_floating_type(ir::DType dtype, F&& f) {
  switch (dtype) {
    case ir::DType::F16:
      return f(Float16{});
    case ir::DType::BF16:
      return f(BFloat16{});
    case ir::DType::F32:
      return f(float{});
    case ir::DType::F64:
      return f(double{});
    default:
      throw InternalError("expected a floating type, not " + std::string(ir::name(dtype)));
  }
}

}  // namespace lazuli::lowering
