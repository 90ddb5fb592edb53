// Between torch's element types and scalars, and the IR's.
#pragma once
#include <array>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include "ir/graph.h"

namespace lazuli::lazy {

namespace detail {
inline constexpr std::array<std::pair<c10::ScalarType, ir::DType>, 13> kTypePairs{{
    {c10::ScalarType::Bool, ir::DType::Bool},
    {c10::ScalarType::Byte, ir::DType::U8},
    {c10::ScalarType::Char, ir::DType::I8},
    {c10::ScalarType::Short, ir::DType::I16},
    {c10::ScalarType::Int, ir::DType::I32},
    {c10::ScalarType::Long, ir::DType::I64},
    {c10::ScalarType::Half, ir::DType::F16},
    {c10::ScalarType::BFloat16, ir::DType::BF16},
    {c10::ScalarType::Float, ir::DType::F32},
    {c10::ScalarType::Double, ir::DType::F64},
    {c10::ScalarType::ComplexHalf, ir::DType::C32},
    {c10::ScalarType::ComplexFloat, ir::DType::C64},
    {c10::ScalarType::ComplexDouble, ir::DType::C128},
}};
inline constexpr auto kToIr = [] {
  std::array<ir::DType, static_cast<size_t>(c10::ScalarType::NumOptions)> t{};
  t.fill(ir::DType::Opaque);
  for (auto [torch, ir] : kTypePairs) t[static_cast<size_t>(torch)] = ir;
  return t;
}();
}  // namespace detail

// Opaque for types that no kernel of ours computes on and no IR name exists for (quantized, 8-bit floating, ...).
inline ir::DType to_ir(c10::ScalarType t) { return detail::kToIr[static_cast<size_t>(t)]; }
// Throws InternalError for Opaque.
c10::ScalarType to_torch(ir::DType t);

inline ir::Dims to_dims(at::IntArrayRef v) { return ir::Dims(std::span<const int64_t>(v.data(), v.size())); }
inline at::IntArrayRef to_ref(const ir::Dims& d) { return {ir::numbers(d).data(), d.size()}; }
// An attribute of an operation.
inline at::IntArrayRef list_of(const ir::Attrs& a, size_t i) {
  const auto l = a.list(i);
  return {ir::numbers(l).data(), l.size()};
}

// A run-time number as executables take it: bits of a double for floating types, the integer for the others.
int64_t scalar_bits(const c10::Scalar& s, ir::DType type);

}  // namespace lazuli::lazy
