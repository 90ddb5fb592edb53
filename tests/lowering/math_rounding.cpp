// Rounding to the narrow floating types in registers: what storing and loading again gives, bit for bit.
#include <gtest/gtest.h>

#include "ir/interpret/scalar.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;

class Rounding : public ::testing::TestWithParam<std::tuple<const char*, Prim>> {};

TEST_P(Rounding, IsWhatMemoryDoes) {
  const auto [cpu, prim] = GetParam();
  jit::Compiler compiler(cpu);
  const testing::PrimKernel kernel(compiler, prim, DType::F32);
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 1021) x.push_back(std::bit_cast<float>(uint32_t(bits)));
  // Ties, and their neighbours, at every exponent; the largest numbers and NaNs of every payload are among them.
  for (uint64_t upper = 0; upper < 1 << 16; upper += 5)
    for (uint32_t lower : {0x0000u, 0x0001u, 0x1000u, 0x2fffu, 0x3000u, 0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(static_cast<uint32_t>(upper << 16 | lower)));
  if (prim == Prim::round_bf16_result)
    std::erase_if(x, [](float v) { return std::isnan(v) && (std::bit_cast<uint32_t>(v) & 0xffff); });
  std::vector<float> y(x.size());
  kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const ir::Number arg{x[i], 0};
    const auto expected = static_cast<float>(ir::evaluate(prim, DType::F32, DType::F32, &arg).f);
    if (std::isnan(x[i]))
      ASSERT_TRUE(std::isnan(y[i])) << std::hex << std::bit_cast<uint32_t>(x[i]);
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(y[i]), std::bit_cast<uint32_t>(expected)) << std::hexfloat << x[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Rounding,
                         ::testing::Combine(::testing::Values("", "avx2"),
                                            ::testing::Values(Prim::round_bf16, Prim::round_bf16_result,
                                                              Prim::round_f16)),
                         [](const auto& p) {
                           return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") +
                                  ir::info(std::get<1>(p.param)).name;
                         });

}  // namespace
}  // namespace lazuli
