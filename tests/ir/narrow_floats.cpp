// bf16 and f16 in memory: every pattern survives, and rounding is half to even.
#include "ir/interpret/number.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

TEST(NarrowFloats, EveryPatternSurvives) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto h = static_cast<uint16_t>(bits);
    float b = from_bf16(h), f = from_f16(h);
    if (!std::isnan(b)) {
      ASSERT_EQ(to_bf16(b), h);
    }
    if (!std::isnan(f)) {
      ASSERT_EQ(to_f16(f), h);
    }
  }
}

TEST(NarrowFloats, RoundHalfToEven) {
  EXPECT_EQ(from_bf16(to_bf16(1.00390625f)), 1.0f);       // half a step above 1
  EXPECT_EQ(from_bf16(to_bf16(1.01171875f)), 1.015625f);  // one and a half
  EXPECT_EQ(from_f16(to_f16(2049.0f)), 2048.0f);
  EXPECT_EQ(from_f16(to_f16(2051.0f)), 2052.0f);
  EXPECT_EQ(from_f16(to_f16(0x1p-25f)), 0.0f);
  EXPECT_EQ(from_f16(to_f16(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(from_f16(to_f16(65519.0f)), 65504.0f);
  EXPECT_EQ(from_f16(to_f16(65520.0f)), INFINITY);
  EXPECT_TRUE(std::isnan(from_bf16(to_bf16(NAN))));
  EXPECT_EQ(from_bf16(to_bf16(-INFINITY)), -INFINITY);
}

}  // namespace
}  // namespace lazuli::ir::testing
