// Views: the row says where the result's elements lie in the operand.
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {

void interpret_view(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor& x = *in[0];
  Tensor& y = out[0];
  StridedWindow w = info(node.op).window(x.type, node.attrs, y.type);
  for_each(y.type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    copy_element(y, flat, x, w.offset + dot(index, w.strides));
  });
}

}  // namespace lazuli::ir
