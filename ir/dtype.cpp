#include "ir/dtype.h"
#include <array>
#include <utility>

namespace lazuli::ir {
namespace {

struct Row {
  std::string_view name;
  int64_t size;
};
constexpr std::array<Row, 14> kTypes = {{{"bool", 1},
                                         {"u8", 1},
                                         {"i8", 1},
                                         {"i16", 2},
                                         {"i32", 4},
                                         {"i64", 8},
                                         {"f16", 2},
                                         {"bf16", 2},
                                         {"f32", 4},
                                         {"f64", 8},
                                         {"c32", 4},
                                         {"c64", 8},
                                         {"c128", 16},
                                         {"opaque", 0}}};
static_assert(kTypes.size() == static_cast<size_t>(DType::Opaque) + 1);

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // the enum's order is torch's: bool, integral, floating, each by width
  if (a == DType::U8 && b == DType::I8) return DType::I16;
  if (a == DType::F16 && b == DType::BF16) return DType::F32;
  return b;
}

bool preserves(DType from, DType to) {
  if (from == to || from == DType::Bool) return true;
  if (to == DType::Bool) return false;
  if (is_floating(from)) return is_floating(to) && item_size(to) > item_size(from);
  const int64_t bits = item_size(from) * 8;
  if (is_integral(to)) return item_size(to) > item_size(from) && (is_signed(to) || !is_signed(from));
  return bits <= (to == DType::F64 ? 53 : to == DType::F32 ? 24 : 8);
}

int64_t item_size(DType t) { return kTypes[static_cast<size_t>(t)].size; }
std::string_view name(DType t) { return kTypes[static_cast<size_t>(t)].name; }

bool parse_dtype(std::string_view s, DType& out) {
  for (size_t i = 0; i < kTypes.size(); ++i)
    if (kTypes[i].name == s) {
      out = static_cast<DType>(i);
      return true;
    }
  return false;
}

}  // namespace lazuli::ir
