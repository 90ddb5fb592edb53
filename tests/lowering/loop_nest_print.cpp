// The printed form of a loop nest.
#include <gtest/gtest.h>

#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

TEST(LoopNestPrint, ShowsAccessesAndStages) {
  testing::NestBuilder b(lowering::Schedule::Row, 2, 1);
  auto x = b.prim(ir::Prim::exp, b.load(ir::DType::BF16));
  auto sum = b.reduce(lowering::Reduce::Sum, b.prim(ir::Prim::mul, x, b.literal(0.5)), ir::DType::F32);
  b.stage().row();
  b.store(sum, ir::DType::F32, lowering::VectorStride::Zero);
  EXPECT_EQ(b.nest().print(), R"(nest row rank 2 reduced 1 params 0
  a0: bf16 stride one
  a1: f32 stride zero row store
stage 0
  elem %0: f32 = load a0
  elem %1: f32 = exp %0
  elem %2: f32 = literal 0.5
  elem %3: f32 = mul %1, %2
  elem %4: f32 = sum %3
stage 1
  row  %5: f32 = store a1 %4
)");
}

}  // namespace
}  // namespace lazuli
