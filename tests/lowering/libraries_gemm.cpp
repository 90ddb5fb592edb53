// Our own matrix product, which others serve in part, for every edge of its blocks.
#include "lowering/libraries/product/gemm.h"
#include "lowering/threads/crew.h"
#include "tests/lowering/products.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::layout;
using testing::Tensor;

void check(const Layout& a, const Layout& b, const Layout& out, std::vector<PostOp> ops = {}) {
  testing::check_product(make_gemm, a, b, out, std::move(ops));
}

const std::vector<DType> kTypes{DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I32};

TEST(Gemm, EdgesOfBlocksAndPanels) {
  for (int64_t m : {1, 5, 6, 7, 12, 13, 49})
    for (int64_t n : {1, 8, 15, 16, 17, 33, 70})
      for (int64_t k : {1, 7, 8, 9, 64, 255, 256, 257})
        check(layout(DType::F32, {m, k}), layout(DType::F32, {k, n}), layout(DType::F32, {m, n}));
}

TEST(Gemm, SeveralTiles) {
  for (DType t : kTypes)
    for (auto [m, n, k] : {std::array{241, 130, 40}, {500, 17, 9}, {13, 1030, 5}, {100, 200, 300}})
      check(layout(t, {m, k}), layout(t, {k, n}), layout(t, {m, n}));
}

// Operands transposed, or neither way contiguous; results transposed, or a part of something larger.
TEST(Gemm, EveryOrder) {
  using Order = std::vector<size_t>;
  const Order across{0, 1}, down{1, 0};
  for (DType t : kTypes)
    for (const auto& [m, n, k] : {std::array{61, 35, 270}, {130, 72, 33}})
      for (const Order& a : {across, down})
        for (const Order& b : {across, down})
          for (const Order& out : {across, down})
            for (int64_t padding : {0, 3})
              check(layout(t, {m, k}, a, padding), layout(t, {k, n}, b, padding), layout(t, {m, n}, out, padding));
  // Whole panels, one behind the other in memory, and sums behind them.
  for (const Order& a : {across, down})
    check(layout(DType::F32, {60, 512}, a), layout(DType::F32, {512, 80}), layout(DType::F32, {60, 80}, down));
  check({DType::F32, {50, 60}, {240, 2}}, {DType::F32, {60, 40}, {3, 200}}, {DType::F32, {50, 40}, {160, 2}});
}

TEST(Gemm, Batches) {
  for (DType t : kTypes) {
    check(layout(t, {3, 2, 25, 40}), layout(t, {3, 2, 40, 33}), layout(t, {3, 2, 25, 33}));
    check({t, {5, 25, 40}, {0, 40, 1}}, layout(t, {5, 40, 18}), layout(t, {5, 25, 18}));
  }
}

TEST(Gemm, PostOpsOfEveryKind) {
  for (DType t : {DType::F32, DType::F64, DType::BF16})
    for (const auto& [m, n, k] : {std::array{50, 37, 300}, {300, 70, 20}})
      check(layout(t, {m, k}), layout(t, {k, n}), layout(t, {m, n}),
            {{PostOp::Add, layout(t, {n})},
             {PostOp::Relu},
             {PostOp::Mul, layout(t, {m, 1})},
             {PostOp::Scale, {}, 0.5},
             {PostOp::GeluErf},
             {PostOp::Add, layout(t, {m, n}, {1, 0})}});
}

// At the edges, too, where blocks are computed elsewhere and added. The sanitizers see whether as unsigned numbers.
TEST(Gemm, SumsOfSeveralPanelsWrap) { testing::check_wrapping(make_gemm, 13, 19, 520); }

// k is never shared out, so a sum is made in one order.
TEST(Gemm, TheSameBitsOnAnyNumberOfThreads) {
  const Layout la = layout(DType::F32, {500, 400}), lb = layout(DType::F32, {400, 300}),
               lo = layout(DType::F32, {500, 300});
  Tensor a = Tensor::random(la, 1), b = Tensor::random(lb, 2), one(lo), many(lo);
  {
    const OneThread alone;
    testing::run(*make_gemm(la, lb, lo, {}), {&a, &b}, {&one});
  }
  testing::run(*make_gemm(la, lb, lo, {}), {&a, &b}, {&many});
  one.each([&](const ir::Dims& at) { EXPECT_EQ(one.get(at), many.get(at)); });
}

}  // namespace
}  // namespace lazuli::lowering
