#include "ir/rules/check.h"

namespace lazuli::ir {
namespace {

std::string join(SizeSpan v, const char* separator) {
  std::string s;
  for (size_t i = 0; i < v.size(); ++i) {
    if (i) s += separator;
    s += std::to_string(v[i]);
  }
  return s;
}

}  // namespace

std::string list_text(SizeSpan v) { return "[" + join(v, ", ") + "]"; }
std::string size_text(SizeSpan v) { return join(v, "x"); }

void check_dim(Size dim, Size rank) {
  if (dim >= 0 && dim < rank) return;
  Size bound = max(rank, 1);
  type_error("Dimension out of range (expected to be in range of [", -bound, ", ", bound - 1, "], but got ", dim, ")");
}

}  // namespace lazuli::ir
