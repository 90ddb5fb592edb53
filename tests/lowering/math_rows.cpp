// Elementary functions that are rows of several primitives, as tests/lowering/math_unary.cpp tests the primitives.
#include <gtest/gtest.h>

#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::Op;

struct Row {
  Op op;
  double (*exact)(double);
};

double exact_logistic(double x) { return 1 / (1 + std::exp(-x)); }
double exact_frac(double x) { return x - std::trunc(x); }
double exact_sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
double exact_relu(double x) { return x < 0 ? 0 : x; }
double exact_hard_logistic(double x) { return x < -3 ? 0 : x > 3 ? 1 : (x + 3) / 6; }

const Row kRows[] = {{Op::exp2, std::exp2},   {Op::log10, std::log10},
                     {Op::asinh, std::asinh}, {Op::acosh, std::acosh},
                     {Op::atanh, std::atanh}, {Op::frac, exact_frac},
                     {Op::sign, exact_sign},  {Op::relu, exact_relu},
                     {Op::abs, std::fabs},    {Op::neg, [](double x) { return -x; }}};

class Rows : public ::testing::TestWithParam<std::tuple<const char*, Row>> {};

TEST_P(Rows, AreWithinTwoUnitsInTheLastPlace) {
  jit::Compiler compiler(std::get<0>(GetParam()));
  const Row row = std::get<1>(GetParam());
  const testing::ArrayKernel kernel(compiler, testing::row_nest(row.op, ir::DType::F32));
  const testing::Worst w = sweep(kernel, row.exact, *std::get<0>(GetParam()) ? 8191 : 1021);
  if (std::getenv("LAZULI_ULPS")) std::printf("%s max %.3f ulp at %a\n", ir::name(row.op).data(), w.ulps, w.x);
  EXPECT_LE(w.ulps, 2.0) << ir::name(row.op) << "(" << w.x << " = " << std::hexfloat << w.x << ") = " << w.actual
                         << ", exactly " << w.exact;
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<const char*, Row>>& p) {
  return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") + std::string(ir::name(std::get<1>(p.param).op));
}
INSTANTIATE_TEST_SUITE_P(Functions, Rows, ::testing::Combine(::testing::Values("", "avx2"), ::testing::ValuesIn(kRows)),
                         test_name);

// Where a quotient is formed from an infinite or vanishing exponential the last subnormal numbers are lost, as in
// eager: a small absolute error then.
TEST(LogisticRows, AreWithinFourUnitsOfNormalNumbers) {
  for (Op op : {Op::sigmoid, Op::hardsigmoid}) {
    jit::Compiler compiler("");
    const testing::ArrayKernel kernel(compiler, testing::row_nest(op, ir::DType::F32));
    auto* exact = op == Op::sigmoid ? exact_logistic : exact_hard_logistic;
    std::vector<float> x, y;
    for (float v = -87; v < 200; v += 0.00173f) x.push_back(v);
    y.resize(x.size());
    kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const double e = exact(x[i]);
      ASSERT_TRUE(testing::ulps(y[i], e) <= 4 || std::fabs(y[i] - e) < 1e-7 * (op == Op::hardsigmoid)) << x[i];
    }
  }
}

TEST(HypotRow, NeitherOverflowsNorUnderflows) {
  jit::Compiler compiler("");
  const testing::ArrayKernel kernel(compiler, testing::row_nest(Op::hypot, ir::DType::F32));
  std::vector<float> x, y;
  for (float a : {0.0f, 1e-45f, 3e-39f, 1e-20f, 0.1f, 1.0f, 3.0f, 1e20f, 2e38f, 3.4e38f, INFINITY})
    for (float b : {0.0f, 1e-45f, 4e-39f, 1e-19f, 0.3f, 1.0f, 4.0f, 3e20f, 1e38f, 3.4e38f, INFINITY})
      for (int signs = 0; signs < 4; ++signs) {
        x.push_back(signs & 1 ? -a : a);
        y.push_back(signs & 2 ? -b : b);
      }
  std::vector<float> z(x.size());
  kernel(static_cast<int64_t>(x.size()), {x.data(), y.data()}, z.data());
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(testing::ulps(z[i], std::hypot(double(x[i]), double(y[i]))), 0.5001) << x[i] << ", " << y[i];
}

}  // namespace
}  // namespace lazuli
