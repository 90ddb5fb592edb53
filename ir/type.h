// The type of a value: element type and shape. Every value is dense and row-major; a tensor's strides
// belong to the tensor (lazy/), and a permuted layout is a permuted value.
#pragma once
#include <string>
#include "ir/dims.h"
#include "ir/dtype.h"

namespace lazuli::ir {

struct Type {
  DType dtype = DType::F32;
  Dims shape;  // elements per dimension, outermost first; empty for a scalar

  int64_t rank() const { return shape.size(); }
  Size numel() const { return product(shape); }
  Size bytes() const { return numel() * item_size(dtype); }
  friend bool operator==(const Type&, const Type&) = default;
};
std::string to_string(const Type& type);  // "f32[2,3]"

// The shape that operands of these shapes broadcast to (NumPy's rule); throws TypeError when they do not.
Dims broadcast_shapes(SizeSpan a, SizeSpan b);
// The same with `shape` as a and as result; recording an op calls it for each operand.
void broadcast_into(Dims& shape, SizeSpan b);

}  // namespace lazuli::ir
