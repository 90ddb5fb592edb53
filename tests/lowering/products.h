// Matrix products against a plain triple loop in float64.
#pragma once
#include "lowering/libraries/post_ops.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering::testing {

// The product at `at`, after `ops`, in float64.
inline double product_at(const Tensor& a, const Tensor& b, const std::vector<PostOp>& ops, std::vector<Tensor>& operands,
                 const ir::Dims& at, const ir::Dims& shape) {
  const size_t rank = at.size();
  ir::Dims ia = at, ib = at;
  double sum = 0;
  for (int64_t k = 0; k < a.layout.shape[rank - 1]; ++k) {
    ia[rank - 1] = k, ib[rank - 2] = k;
    sum += a.get(ia) * b.get(ib);
  }
  size_t next = 0;
  for (const PostOp& op : ops) {
    double y = 0;
    if (has_operand(op)) {
      Tensor& t = operands[next++];
      const Layout wide = broadcast_to(t.layout, shape);
      ir::Dims index(t.layout.shape.size(), 0);
      for (size_t d = 0; d < index.size(); ++d)
        index[d] = wide.strides[d + rank - index.size()] ? at[d + rank - index.size()] : ir::Size(0);
      y = t.get(index);
    }
    sum = apply_post_op(op, sum, y);
  }
  return sum;
}

using MakeProduct = std::unique_ptr<LibraryCall> (*)(const Layout&, const Layout&, const Layout&, std::span<const PostOp>);

// The call computes the product of random operands.
inline void check_product(MakeProduct make, const Layout& la, const Layout& lb, const Layout& lo, std::vector<PostOp> ops = {}) {
  const double range = ir::is_integral(lo.dtype) ? 5 : 1;
  Tensor a = Tensor::random(la, 1, ir::is_signed(la.dtype) ? -range : 0, range);
  Tensor b = Tensor::random(lb, 2, ir::is_signed(lb.dtype) ? -range : 0, range);
  Tensor out(lo);
  std::vector<Tensor> operands;
  std::vector<Tensor*> inputs{&a, &b};
  for (const PostOp& op : ops)
    if (has_operand(op)) operands.push_back(Tensor::random(op.operand, 3 + operands.size()));
  for (Tensor& t : operands) inputs.push_back(&t);
  auto call = make(la, lb, lo, ops);
  run(*call, inputs, {&out});
  const double scale = std::sqrt(static_cast<double>(la.shape.back()));
  expect_close(out, [&](const ir::Dims& at) { return product_at(a, b, ops, operands, at, lo.shape); }, scale,
               call->describe());
}

}  // namespace lazuli::lowering::testing
