// Elementary functions of float32 over the whole domain, against float64: at most two units in the last place.
#include <gtest/gtest.h>

#include <bit>

#include "lowering/scalar_eval.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;

struct Worst {
  double ulps = 0;
  float x = 0, actual = 0;
  double exact = 0;
};

double exactly(Prim prim, float x) {
  const lowering::Number arg{x, 0};
  return lowering::evaluate(prim, DType::F64, DType::F64, &arg).f;
}

void compare(const testing::PrimKernel& kernel, Prim prim, const std::vector<float>& x, Worst& worst) {
  std::vector<float> y(x.size());
  kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = exactly(prim, x[i]), error = testing::ulps(y[i], exact);
    if (!(error <= worst.ulps)) worst = {error, x[i], y[i], exact};
  }
}

// Every `step`-th bit pattern, and the neighbourhoods of zero, one, powers of two and multiples of pi / 2.
Worst sweep(const testing::PrimKernel& kernel, Prim prim, uint32_t step) {
  Worst worst;
  std::vector<float> x;
  auto flush = [&](size_t limit) {
    if (x.size() < limit) return;
    compare(kernel, prim, x, worst);
    x.clear();
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    flush(1 << 16);
  }
  auto around = [&](float center) {
    for (int32_t d = -200; d <= 200; ++d)
      for (uint32_t sign : {0u, 0x80000000u})
        x.push_back(std::bit_cast<float>((std::bit_cast<uint32_t>(center) + d) ^ sign));
    flush(1 << 16);
  };
  for (int e = -149; e < 128; ++e) around(std::ldexp(1.0f, e));
  for (int k = 1; k < 200; ++k) around(static_cast<float>(k * 1.57079632679489661923));
  for (float edge : {0.0f, 0.3466f, 0.41421f, 0.5f, 0.625f, 0.70711f, 0.92f, 2.41421f, 4.0f, 9.01f, 10.05f, 17.33f,
                     88.7f, 89.4f, 103.97f, 32768.0f, INFINITY, NAN})
    around(edge);
  flush(0);
  return worst;
}

class Unary : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Unary, IsWithinTwoUnitsInTheLastPlace) {
  jit::Compiler compiler(std::get<0>(GetParam()));
  const Prim prim = static_cast<Prim>(std::get<1>(GetParam()));
  const testing::PrimKernel kernel(compiler, prim, DType::F32);
  const Worst w = sweep(kernel, prim, *std::get<0>(GetParam()) ? 8191 : 1021);
  RecordProperty("max_ulp", std::to_string(w.ulps));
  if (std::getenv("LAZULI_ULPS")) std::printf("%-6s max %.3f ulp at %a\n", ir::info(prim).name, w.ulps, w.x);
  EXPECT_LE(w.ulps, 2.0) << ir::info(prim).name << "(" << w.x << " = " << std::hexfloat << w.x << ") = " << w.actual
                         << ", exactly " << w.exact;
}

INSTANTIATE_TEST_SUITE_P(Functions, Unary,
                         ::testing::Combine(::testing::Values("", "avx2"),
                                            ::testing::Range(static_cast<int>(Prim::sqrt), static_cast<int>(Prim::eq))),
                         [](const auto& p) {
                           return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") +
                                  ir::info(static_cast<Prim>(std::get<1>(p.param))).name;
                         });

}  // namespace
}  // namespace lazuli
