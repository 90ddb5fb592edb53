// Elementary functions of float64 against long double, on random numbers and on the edges.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;

double ulps(double actual, long double exact) {
  const double rounded = static_cast<double>(exact);
  if (std::isnan(rounded) || std::isinf(rounded) || std::isinf(actual))
    return actual == rounded || (std::isnan(actual) && std::isnan(rounded)) ? 0 : INFINITY;
  if (rounded == 0) return actual == 0 ? 0 : INFINITY;
  const int exponent = std::max(std::ilogb(exact), -1022);
  return static_cast<double>(std::fabs(actual - exact) / std::ldexp(1.0L, exponent - 52));
}

struct Case {
  Prim prim;
  long double (*exact)(long double);
};
const Case kCases[] = {{Prim::exp, std::exp},   {Prim::expm1, std::expm1}, {Prim::log, std::log},   {Prim::log1p, std::log1p},
                       {Prim::log2, std::log2}, {Prim::sin, std::sin},     {Prim::cos, std::cos},   {Prim::tan, std::tan},
                       {Prim::asin, std::asin}, {Prim::acos, std::acos},   {Prim::atan, std::atan}, {Prim::sinh, std::sinh},
                       {Prim::cosh, std::cosh}, {Prim::tanh, std::tanh},   {Prim::erf, std::erf},   {Prim::erfc, std::erfc},
                       {Prim::sqrt, std::sqrt}};

class UnaryF64 : public ::testing::TestWithParam<std::tuple<const char*, Case>> {};

TEST_P(UnaryF64, IsWithinFiveUnitsInTheLastPlace) {
  const Case c = std::get<1>(GetParam());
  jit::Compiler compiler(std::get<0>(GetParam()));
  const testing::PrimKernel kernel(compiler, c.prim, DType::F64);
  std::vector<double> x = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 709.7, 709.8, 710,
                           -745.1, -745.2, -708.4, -720};
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-2, 2);
  for (int i = 0; i < 50000; ++i) x.push_back(i % 2 ? wide(rng) : narrow(rng));
  std::vector<double> y(x.size());
  kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    // The C library's own float64 functions are within 4 units or so; ours within 2.
    ASSERT_LE(ulps(y[i], c.exact(x[i])), c.prim == Prim::exp ? 2.0 : 5.0)
        << ir::info(c.prim).name << "(" << std::hexfloat << x[i] << ") = " << y[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Functions, UnaryF64, ::testing::Combine(::testing::Values("", "avx2"), ::testing::ValuesIn(kCases)),
                         [](const auto& p) {
                           return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") +
                                  ir::info(std::get<1>(p.param).prim).name;
                         });

}  // namespace
}  // namespace lazuli
