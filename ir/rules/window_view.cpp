// Where views' elements lie in their dense operand.
#include "ir/rules/rules.h"

namespace lazuli::ir {

StridedWindow window_reshape(const Type&, const Attrs&, const Type& result) {
  return {contiguous_strides(result.shape), 0};
}

StridedWindow window_permute(const Type& operand, const Attrs& attrs, const Type&) {
  const Dims strides = contiguous_strides(operand.shape);
  StridedWindow w;
  for (Size d : attrs.list(0)) w.strides.push_back(strides[d]);
  return w;
}

StridedWindow window_broadcast(const Type& operand, const Attrs&, const Type& result) {
  const Dims strides = contiguous_strides(operand.shape);
  StridedWindow w{Dims(result.shape.size(), 0), 0};
  const size_t lead = result.shape.size() - operand.shape.size();
  for (size_t d = 0; d < operand.shape.size(); ++d)
    if (operand.shape[d] != 1) w.strides[lead + d] = strides[d];
  return w;
}

StridedWindow window_slice(const Type& operand, const Attrs& attrs, const Type&) {
  StridedWindow w{contiguous_strides(operand.shape), 0};
  for (size_t d = 0; d < operand.shape.size(); ++d) {
    w.offset += attrs.list(0)[d] * w.strides[d];
    w.strides[d] *= attrs.list(2)[d];
  }
  return w;
}

StridedWindow window_flip(const Type& operand, const Attrs& attrs, const Type&) {
  StridedWindow w{contiguous_strides(operand.shape), 0};
  for (Size d : attrs.list(0)) {
    w.offset += (operand.shape[d] - 1) * w.strides[d];
    w.strides[d] = -w.strides[d];
  }
  return w;
}

StridedWindow window_as_strided(const Type&, const Attrs& attrs, const Type&) {
  return {Dims(attrs.list(1)), attrs.size(2)};
}

// In elements of the result's type: the bytes are the same.
StridedWindow window_bitcast(const Type&, const Attrs&, const Type& result) {
  return {contiguous_strides(result.shape), 0};
}

}  // namespace lazuli::ir
