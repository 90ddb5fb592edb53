// Hash and equality of loop nests: whatever changes the code changes both.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

using lowering::LoopNest;

LoopNest sample() {
  testing::NestBuilder b(lowering::Schedule::Row, 2, 1);
  auto x = b.load(ir::DType::F32);
  auto zero = b.literal(0.0);
  auto sum = b.reduce(lowering::Reduce::Sum, b.prim(ir::Prim::mul, x, zero), ir::DType::F32);
  b.stage().row();
  b.store(sum, ir::DType::BF16, lowering::VectorStride::Zero);
  return b.nest();
}

TEST(LoopNestHash, EqualNestsHashEqually) {
  EXPECT_EQ(sample(), sample());
  EXPECT_EQ(sample().hash(), sample().hash());
}

TEST(LoopNestHash, EveryFieldCounts) {
  const LoopNest base = sample();
  const std::function<void(LoopNest&)> changes[] = {
      [](LoopNest& n) { n.schedule = lowering::Schedule::Column; },
      [](LoopNest& n) { n.rank = 3; },
      [](LoopNest& n) { n.reduced = 2; },
      [](LoopNest& n) { n.stages = 3; },
      [](LoopNest& n) { n.params = 1; },
      [](LoopNest& n) { n.accesses[0].dtype = ir::DType::F16; },
      [](LoopNest& n) { n.accesses[0].stride = lowering::VectorStride::Any; },
      [](LoopNest& n) { n.accesses[0].stride = lowering::VectorStride::Two; },
      [](LoopNest& n) { n.accesses[0].after = 1; },
      [](LoopNest& n) { n.accesses[0].row = true; },
      [](LoopNest& n) { n.accesses[0].still = true; },
      [](LoopNest& n) { n.accesses[0].store = true; },
      [](LoopNest& n) { n.accesses[0].indexed = true; },
      [](LoopNest& n) { n.insts[1].value = -0.0; },
      [](LoopNest& n) { n.insts[1].value = NAN; },
      [](LoopNest& n) { n.insts[1].dtype = ir::DType::F64; },
      [](LoopNest& n) { n.insts[2].prim = ir::Prim::add; },
      [](LoopNest& n) { n.insts[2].args[1] = 0; },
      [](LoopNest& n) { n.insts[3].reduce = lowering::Reduce::Max; },
      [](LoopNest& n) { n.insts[3].row = true; },
      [](LoopNest& n) { n.insts[3].stage = 1; },
      [](LoopNest& n) { n.insts[4].slot = 0; },
      [](LoopNest& n) { n.insts.pop_back(); },
  };
  for (const auto& change : changes) {
    LoopNest n = base;
    change(n);
    EXPECT_NE(n, base) << n.print();
    EXPECT_NE(n.hash(), base.hash()) << n.print();
  }
}

TEST(LoopNestHash, NanLiteralIsItself) {
  LoopNest a = sample(), b = sample();
  a.insts[1].value = b.insts[1].value = NAN;
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace lazuli
