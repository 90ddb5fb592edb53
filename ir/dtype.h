// Element types. Native types have kernels; the others only travel through external calls.
#pragma once
#include <cstdint>
#include <string_view>

namespace lazuli::ir {

enum class DType : uint8_t { Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C32, C64, C128, Opaque };

constexpr bool is_floating(DType t) { return t >= DType::F16 && t <= DType::F64; }
constexpr bool is_reduced_floating(DType t) { return t == DType::F16 || t == DType::BF16; }
constexpr bool is_integral(DType t) { return t >= DType::U8 && t <= DType::I64; }
// Types that interpreter and kernels compute on; complex and quantized ones are left to external calls.
constexpr bool is_native(DType t) { return t <= DType::F64; }
constexpr bool is_signed(DType t) { return t != DType::Bool && t != DType::U8; }

// The type that arithmetic on `t` is done in: float32 for the reduced floating types.
constexpr DType compute_type(DType t) { return is_reduced_floating(t) ? DType::F32 : t; }

// torch.promote_types on native types: floating beats integral beats bool, wider beats narrower; f16 with bf16 and u8
// with i8 meet in the next wider type.
DType promote_types(DType a, DType b);

// Whether every number of `from` is one of `to`.
bool preserves(DType from, DType to);

// Bytes of one element; 0 for Opaque, whose size only the backing device knows.
int64_t item_size(DType t);
std::string_view name(DType t);  // "f32", "i64", "bool", ...
bool parse_dtype(std::string_view s, DType& out);

}  // namespace lazuli::ir
