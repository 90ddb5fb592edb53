// Elementary functions of float64 against long double, on random numbers and on the edges.
#include <gtest/gtest.h>

#include <bit>
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
const Case kCases[] = {{Prim::exp, std::exp},     {Prim::expm1, std::expm1}, {Prim::log, std::log},
                       {Prim::log1p, std::log1p}, {Prim::log2, std::log2},   {Prim::sin, std::sin},
                       {Prim::cos, std::cos},     {Prim::tan, std::tan},     {Prim::asin, std::asin},
                       {Prim::acos, std::acos},   {Prim::atan, std::atan},   {Prim::sinh, std::sinh},
                       {Prim::cosh, std::cosh},   {Prim::tanh, std::tanh},   {Prim::erf, std::erf},
                       {Prim::erfc, std::erfc},   {Prim::sqrt, std::sqrt}};

class UnaryF64 : public ::testing::TestWithParam<std::tuple<const char*, Case>> {};

TEST_P(UnaryF64, IsWithinThreeUnitsInTheLastPlace) {
  const Case c = std::get<1>(GetParam());
  jit::Compiler compiler(std::get<0>(GetParam()));
  const testing::PrimKernel kernel(compiler, c.prim, DType::F64);
  std::vector<double> x = {0.0,   -0.0,   1,     -1,    INFINITY, -INFINITY, NAN,    5e-324, -5e-324, 1e-310,
                           1e308, -1e308, 709.7, 709.8, 710,      -745.1,    -745.2, -708.4, -720};
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-2, 2);
  for (int i = 0; i < 50000; ++i) x.push_back(i % 2 ? wide(rng) : narrow(rng));
  std::vector<double> y(x.size());
  kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(ulps(y[i], c.exact(x[i])), 3.0)
        << ir::info(c.prim).name << "(" << std::hexfloat << x[i] << ") = " << y[i];
  }
}

struct Binary {
  Prim prim;
  long double (*exact)(long double, long double);
};
const Binary kBinary[] = {{Prim::pow, std::pow}, {Prim::atan2, std::atan2}, {Prim::fmod, std::fmod}};

TEST(BinaryF64, IsWithinThreeUnitsInTheLastPlace) {
  jit::Compiler compiler("");
  const double special[] = {0.0, 5e-324, 1e-310, 0.5, 1, 1.5, 2, 3, 7, 1e15, 1e300, 1e308, INFINITY, NAN};
  std::vector<double> x, y;
  for (double a : special)
    for (double b : special)
      for (int signs = 0; signs < 4; ++signs) {
        x.push_back(signs & 1 ? -a : a);
        y.push_back(signs & 2 ? -b : b);
      }
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> wide(-700, 700), narrow(-2, 2);
  for (int i = 0; i < 30000; ++i) {
    x.push_back(i % 3 == 0 ? std::exp(wide(rng)) : i % 3 == 1 ? narrow(rng) : std::bit_cast<double>(rng()));
    y.push_back(i % 2 ? wide(rng) : i % 3 ? narrow(rng) : std::bit_cast<double>(rng()));
  }
  for (const Binary& b : kBinary) {
    const testing::PrimKernel kernel(compiler, b.prim, DType::F64);
    std::vector<double> z(x.size());
    kernel(static_cast<int64_t>(x.size()), {x.data(), y.data()}, z.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(z[i], b.exact(x[i], y[i])), b.prim == Prim::fmod ? 0.0 : 3.0)
          << ir::info(b.prim).name << "(" << std::hexfloat << x[i] << ", " << y[i] << ") = " << z[i] << " for "
          << static_cast<double>(b.exact(x[i], y[i]));
  }
}

TEST(TrigF64, ReducesHugeArguments) {
  jit::Compiler compiler("");
  std::vector<double> x;
  std::mt19937_64 rng(5);
  for (int i = 0; i < 30000; ++i)
    x.push_back(std::ldexp(1 + std::ldexp(static_cast<double>(rng() >> 12), -52), static_cast<int>(rng() % 1023)));
  for (int k = 1; k < 3000; ++k) x.push_back(k * 1.57079632679489661923);
  for (auto [prim, exact] :
       {std::pair<Prim, double (*)(double)>{Prim::sin, std::sin}, {Prim::cos, std::cos}, {Prim::tan, std::tan}}) {
    const testing::PrimKernel kernel(compiler, prim, DType::F64);
    std::vector<double> y(x.size());
    kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(y[i], exact(x[i])), 3.0) << ir::info(prim).name << "(" << std::hexfloat << x[i] << ") = " << y[i];
  }
}

// Pieces of polynomials: their edges, and where erf rounds to 1. Vectors of all widths and single numbers give the same
// bits, though they look coefficients up in other ways.
template <typename T>
void check_erf_by_pieces(DType type, double limit) {
  std::vector<T> x = {T(INFINITY), T(5.97), T(1e30), T(4.01)};
  const size_t ones = type == DType::F64 ? 3 : 4;  // that give 1
  for (double at = 0; at < 6.5; at += 0.00013) x.push_back(static_cast<T>(at));
  for (double step : {67.0 / 512, 197.0 / 1024})
    for (int k = 1; k < 32; ++k)
      for (T edge : {T(k * step), std::nextafter(T(k * step), T(0)), std::nextafter(T(k * step), T(9))})
        x.push_back(-edge);
  std::vector<T> first;
  for (const char* cpu : {"", "avx2"}) {
    jit::Compiler compiler(cpu);
    const testing::PrimKernel kernel(compiler, Prim::erf, type);
    std::vector<T> y(x.size());
    kernel(static_cast<int64_t>(x.size()), {x.data()}, y.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::erf(static_cast<long double>(x[i]));
      const double unit = std::ldexp(1.0, std::ilogb(exact == 0 ? 1 : exact) - std::numeric_limits<T>::digits + 1);
      ASSERT_LE(std::fabs(static_cast<double>(y[i] - exact)), limit * unit) << std::hexfloat << x[i] << " = " << y[i];
      if (i < ones) ASSERT_EQ(y[i], 1);
    }
    if (first.empty()) first = y;
    ASSERT_EQ(first, y);
    for (size_t i = 0; i < x.size(); i += 701) {
      T alone;
      kernel(1, {&x[i]}, &alone);
      ASSERT_EQ(alone, y[i]);
    }
  }
}
TEST(ErfByPieces, IsExactAtTheEdgesOfPiecesInF32) { check_erf_by_pieces<float>(DType::F32, 2); }
TEST(ErfByPieces, IsExactAtTheEdgesOfPiecesInF64) { check_erf_by_pieces<double>(DType::F64, 3); }

INSTANTIATE_TEST_SUITE_P(Functions, UnaryF64,
                         ::testing::Combine(::testing::Values("", "avx2"), ::testing::ValuesIn(kCases)),
                         [](const auto& p) {
                           const std::string cpu = std::get<0>(p.param);
                           return std::string(cpu.empty() ? "native_" : "avx2_") +
                                  ir::info(std::get<1>(p.param).prim).name;
                         });

}  // namespace
}  // namespace lazuli
