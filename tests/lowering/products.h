// Matrix products against a plain triple loop in float64.
#pragma once
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering::testing {

// The product at `at`, after `ops`, in float64.
inline double product_at(const Tensor& a, const Tensor& b, const std::vector<PostOp>& ops,
                         const std::vector<Tensor>& operands, const ir::Dims& at, const ir::Dims& shape) {
  const size_t rank = at.size();
  ir::Dims ia = at, ib = at;
  double sum = 0;
  for (int64_t k = 0; k < a.layout.shape[rank - 1]; ++k) {
    ia[rank - 1] = k, ib[rank - 2] = k;
    sum += a.get(ia) * b.get(ib);
  }
  return after_post_ops(sum, ops, operands, at, shape);
}

using MakeProduct = std::unique_ptr<LibraryCall> (*)(const Layout&, const Layout&, const Layout&,
                                                     std::span<const PostOp>);

// The call computes the product of random operands.
inline void check_product(MakeProduct make, const Layout& la, const Layout& lb, const Layout& lo,
                          std::vector<PostOp> ops = {}) {
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
  expect_close(
      out, [&](const ir::Dims& at) { return product_at(a, b, ops, operands, at, lo.shape); }, scale, call->describe());
}

// Sums of integers wrap around as their type does.
inline void check_wrapping(MakeProduct make, int64_t m, int64_t n, int64_t k) {
  Tensor a = Tensor::random(layout(ir::DType::I32, {m, k}), 1, 1e9, 2e9);
  Tensor b = Tensor::random(layout(ir::DType::I32, {k, n}), 2, 1e9, 2e9);
  Tensor out(layout(ir::DType::I32, {m, n}));
  run(*make(a.layout, b.layout, out.layout, {}), {&a, &b}, {&out});
  out.each([&](const ir::Dims& at) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += static_cast<uint32_t>(a.get({at[0], i})) * static_cast<uint32_t>(b.get({i, at[1]}));
    EXPECT_EQ(out.get(at), static_cast<double>(static_cast<int32_t>(sum)));
  });
}

}  // namespace lazuli::lowering::testing
