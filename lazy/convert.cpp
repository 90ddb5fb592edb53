#include "lazy/convert.h"

#include <array>
#include <cstring>
#include "ir/error.h"

namespace lazuli::lazy {
namespace {

constexpr size_t kTypes = static_cast<size_t>(c10::ScalarType::NumOptions);

constexpr std::array<std::pair<c10::ScalarType, ir::DType>, 13> kPairs{{
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

constexpr auto kToIr = [] {
  std::array<ir::DType, kTypes> t{};
  t.fill(ir::DType::Opaque);
  for (auto [torch, ir] : kPairs) t[static_cast<size_t>(torch)] = ir;
  return t;
}();

constexpr auto kToTorch = [] {
  std::array<c10::ScalarType, 14> t{};
  t.fill(c10::ScalarType::Undefined);
  for (auto [torch, ir] : kPairs) t[static_cast<size_t>(ir)] = torch;
  return t;
}();

}  // namespace

ir::DType to_ir(c10::ScalarType t) { return kToIr[static_cast<size_t>(t)]; }

c10::ScalarType to_torch(ir::DType t) {
  LAZULI_CHECK(t != ir::DType::Opaque, "an opaque element type has no torch type of its own");
  return kToTorch[static_cast<size_t>(t)];
}

int64_t scalar_bits(const c10::Scalar& s, ir::DType type) {
  if (type == ir::DType::Bool) return s.to<bool>();
  if (!ir::is_floating(type)) return s.to<int64_t>();
  double value = s.to<double>();
  int64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace lazuli::lazy
