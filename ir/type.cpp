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

namespace {

[[noreturn, gnu::cold]] void shapes_differ(Size a, Size b, size_t dim) {
  throw TypeError("The size of tensor a (" + std::to_string(a) + ") must match the size of tensor b (" +
                  std::to_string(b) + ") at non-singleton dimension " + std::to_string(dim));
}

}  // namespace

void broadcast_into(Dims& shape, SizeSpan b) {
  while (shape.size() < b.size()) shape.insert(0, 1);
  Size* a = shape.data() + (shape.size() - b.size());
  for (size_t i = b.size(); i-- > 0;) {
    if (a[i] == b[i] || b[i] == 1) continue;
    if (a[i] != 1) shapes_differ(a[i], b[i], shape.size() - b.size() + i);
    a[i] = b[i];
  }
}

Dims broadcast_shapes(SizeSpan a, SizeSpan b) {
  Dims shape(a);
  broadcast_into(shape, b);
  return shape;
}

Dims contiguous_strides(SizeSpan shape) {
  Dims strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * max(shape[i], 1);
  return strides;
}

Dims channels_last_strides(SizeSpan shape) {
  Dims strides(shape.size(), 1);
  Size stride = max(shape[1], Size(1));
  for (size_t d = shape.size(); d-- > 2;) {
    strides[d] = stride;
    stride *= max(shape[d], Size(1));
  }
  strides[0] = stride;
  return strides;
}

}  // namespace lazuli::ir
