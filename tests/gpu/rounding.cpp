// Rounding to the reduced floating types in registers, for which a GPU has instructions: what storing and loading again
// gives, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "ir/interpret/scalar.h"
#include "tests/gpu/run_nest.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Prim;

// Ties and their neighbours at every exponent; infinities and NaNs are among them.
std::vector<float> numbers() {
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 1 << 16; upper += 3)
    for (uint32_t lower : {0x0000u, 0x0001u, 0x1000u, 0x3000u, 0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  return x;
}

void check(const Run& run) {
  const std::vector<float> x = numbers();
  Bytes input(x.size() * sizeof(float));
  std::memcpy(input.data(), x.data(), input.size());
  for (Prim prim : {Prim::round_bf16, Prim::round_bf16_result, Prim::round_f16}) {
    const Bytes output = run(prim_nest(prim, DType::F32), static_cast<int64_t>(x.size()), {input});
    ASSERT_EQ(output.size(), input.size()) << "written outside its memory";
    for (size_t i = 0; i < x.size(); ++i) {
      float y = 0;
      std::memcpy(&y, &output[i * sizeof(float)], sizeof(float));
      const ir::Number arg{x[i], 0};
      const auto expected = static_cast<float>(ir::evaluate(prim, DType::F32, DType::F32, &arg).f);
      if (std::isnan(x[i]))
        ASSERT_TRUE(std::isnan(y)) << std::hex << std::bit_cast<uint32_t>(x[i]);
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(y), std::bit_cast<uint32_t>(expected)) << std::hexfloat << x[i];
    }
  }
}

TEST(GpuRounding, EmulatedIsWhatMemoryDoes) { check(run_emulated); }

TEST(GpuRounding, IsWhatMemoryDoes) {
  std::string why;
  Gpu* gpu = Gpu::find(why);
  if (!gpu) GTEST_SKIP() << why;
  check(run_on(*gpu));
}

}  // namespace
}  // namespace lazuli::testing
