// Long float32 sums keep their digits, along rows and along columns.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "jit/kernels/compiler.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

using ir::DType;

float sum(jit::Compiler& compiler, lowering::Schedule schedule, bool heavy, std::vector<float> x) {
  testing::NestBuilder b(schedule, 2, 1);
  auto v = b.load(DType::F32);
  // Squaring a square root through pow makes the body heavy, and so another form of loop.
  if (heavy) v = b.prim(ir::Prim::pow, b.prim(ir::Prim::sqrt, v), b.literal(2));
  auto s = b.reduce(lowering::Reduce::Sum, v, DType::F32);
  b.stage().row();
  const bool row = schedule == lowering::Schedule::Row;
  b.store(s, DType::F32, row ? lowering::VectorStride::Zero : lowering::VectorStride::One);
  const lowering::LoopNest nest = b.nest();
  float y = 0;
  const int64_t n = static_cast<int64_t>(x.size());
  const int64_t args[] = {16, 1, n, reinterpret_cast<int64_t>(x.data()), reinterpret_cast<int64_t>(&y), 1, 1, 1,
                          0,  0, 0};
  static int count = 0;
  compiler.load(compiler.compile(nest, "sum" + std::to_string(count++)))(args, 0, 1);
  return y;
}

TEST(SumAccuracy, GrowsSlowlyWithLength) {
  // Added up one by one, a million tenths are off by a hundredth.
  const std::vector<float> tenths(1'000'003, 0.1f);
  const double exact = 0.1f * static_cast<double>(tenths.size());
  for (const char* cpu : {"", "avx2"}) {
    jit::Compiler compiler(cpu);
    for (bool heavy : {false, true})
      for (auto schedule : {lowering::Schedule::Row, lowering::Schedule::Column})
        EXPECT_NEAR(sum(compiler, schedule, heavy, tenths) / exact, 1, 1e-4)
            << cpu << heavy << static_cast<int>(schedule);
  }
}

}  // namespace
}  // namespace lazuli
