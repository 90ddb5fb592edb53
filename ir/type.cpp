#include "ir/type.h"
#include "ir/error.h"

namespace lazuli::ir {

std::string to_string(const Type& type) {
  std::string s(name(type.dtype));
  s += '[';
  for (size_t i = 0; i < type.shape.size(); ++i) {
    if (i) s += ',';
    s += std::to_string(type.shape[i]);
  }
  return s + ']';
}

Dims broadcast_shapes(std::span<const int64_t> a, std::span<const int64_t> b) {
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t back = 0; back < out.size(); ++back) {
    int64_t x = back < a.size() ? a[a.size() - 1 - back] : 1;
    int64_t y = back < b.size() ? b[b.size() - 1 - back] : 1;
    size_t at = out.size() - 1 - back;
    if (x != y && x != 1 && y != 1)
      throw TypeError("The size of tensor a (" + std::to_string(x) + ") must match the size of tensor b (" +
                      std::to_string(y) + ") at non-singleton dimension " + std::to_string(at));
    out[at] = x == 1 ? y : x;
  }
  return out;
}

Dims contiguous_strides(std::span<const int64_t> shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

}  // namespace lazuli::ir
