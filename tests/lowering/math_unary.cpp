// Elementary functions of float32 over the whole domain, against float64: at most two units in the last place.
#include <gtest/gtest.h>

#include "ir/interpret/scalar.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;

double exactly(Prim prim, double x) {
  const ir::Number arg{x, 0};
  return ir::evaluate(prim, DType::F64, DType::F64, &arg).f;
}

class Unary : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Unary, IsWithinTwoUnitsInTheLastPlace) {
  jit::Compiler compiler(std::get<0>(GetParam()));
  const Prim prim = static_cast<Prim>(std::get<1>(GetParam()));
  const testing::PrimKernel kernel(compiler, prim, DType::F32);
  const testing::Worst w =
      sweep(kernel, [prim](double x) { return exactly(prim, x); }, *std::get<0>(GetParam()) ? 8191 : 1021);
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
