#include "lazy/support/convert.h"

#include <array>
#include <cstring>
#include "ir/error.h"

namespace lazuli::lazy {
namespace {

constexpr auto kToTorch = [] {
  std::array<c10::ScalarType, 14> t{};
  t.fill(c10::ScalarType::Undefined);
  for (auto [torch, ir] : detail::kTypePairs) t[static_cast<size_t>(ir)] = torch;
  return t;
}();

}  // namespace

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
