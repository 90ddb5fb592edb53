// The random primitive: Philox4x32-10 with the published known answers, and the same numbers in compiled code.
#include <gtest/gtest.h>

#include <vector>

#include "ir/philox.h"
#include "jit/kernels/compiler.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

using ir::DType;

// From the known-answer file of Random123 (philox4x32 10).
TEST(RandomNumbers, PhiloxGivesItsKnownAnswers) {
  EXPECT_EQ(ir::philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(ir::philox(~0ULL, ~0ULL, ~0ULL), (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(ir::philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomNumbers, CompiledCodeGivesThem) {
  for (const char* cpu : {"", "avx2"}) {
    jit::Compiler compiler(cpu);
    testing::NestBuilder b(lowering::Schedule::Column, 1, 0);
    auto seed = b.param(DType::I64), offset = b.param(DType::I64), index = b.position(0);
    b.store(b.prim_as(ir::Prim::random, DType::F32, seed, offset, index), DType::F32);
    b.store(b.prim_as(ir::Prim::random, DType::F64, seed, offset, index), DType::F64);
    const lowering::LoopNest nest = b.nest();
    std::vector<float> f(1001);
    std::vector<double> d(1001);
    const int64_t s = 0x1234567890abcdef, o = 77;
    const int64_t args[] = {
        128, 1001, reinterpret_cast<int64_t>(f.data()), reinterpret_cast<int64_t>(d.data()), 1, 1, 0, 0, s, o};
    compiler.load(compiler.compile(nest, "random"))(args, 0, lowering::units(nest, args));
    for (int i = 0; i < 1001; ++i) {
      ASSERT_EQ(f[i], ir::philox_f32(s, o, i));
      ASSERT_EQ(d[i], ir::philox_f64(s, o, i));
      ASSERT_TRUE(f[i] >= 0 && f[i] < 1 && d[i] >= 0 && d[i] < 1);
    }
  }
}

}  // namespace
}  // namespace lazuli
