// pow, atan2, fmod and their like on pairs of special and of random numbers.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "ir/interpret/scalar.h"
#include "tests/lowering/math_kernels.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;

struct Pairs {
  std::vector<float> x, y;
};

Pairs pairs() {
  const float special[] = {0.0f, 1e-45f, 1e-38f, 1e-3f,  0.5f,       0.99999994f, 1.0f,  1.0000001f,    1.5f,     2.0f,
                           3.0f, 7.0f,   10.25f, 100.0f, 8388609.0f, 16777215.0f, 1e20f, 3.4028235e38f, INFINITY, NAN};
  Pairs p;
  auto add = [&](float x, float y) {
    p.x.push_back(x);
    p.y.push_back(y);
  };
  for (float x : special)
    for (float y : special)
      for (int signs = 0; signs < 4; ++signs) add(signs & 1 ? -x : x, signs & 2 ? -y : y);
  std::mt19937 rng(1);
  auto any = [&] { return std::bit_cast<float>(static_cast<uint32_t>(rng())); };
  std::uniform_real_distribution<float> unit(0, 1);
  for (int i = 0; i < 300000; ++i) add(any(), any());
  for (int i = 0; i < 300000; ++i) add(std::exp(8 * unit(rng) - 4), 60 * unit(rng) - 30);
  for (int i = 0; i < 100000; ++i) add(1 + 1e-3f * (unit(rng) - 0.5f), 1e5f * (unit(rng) - 0.5f));
  for (int i = 0; i < 100000; ++i) add(-10 * unit(rng), std::round(20 * unit(rng) - 10));
  return p;
}

class Binary : public ::testing::TestWithParam<std::tuple<const char*, Prim>> {};

TEST_P(Binary, IsWithinTwoUnitsInTheLastPlace) {
  const auto [cpu, prim] = GetParam();
  jit::Compiler compiler(cpu);
  const testing::PrimKernel kernel(compiler, prim, DType::F32);
  const Pairs p = pairs();
  std::vector<float> z(p.x.size());
  kernel(static_cast<int64_t>(z.size()), {p.x.data(), p.y.data()}, z.data());
  const bool exact = prim != Prim::pow && prim != Prim::atan2;
  double worst = 0;
  for (size_t i = 0; i < z.size(); ++i) {
    const ir::Number args[2] = {{p.x[i], 0}, {p.y[i], 0}};
    const DType type = exact ? DType::F32 : DType::F64;
    const double expected = ir::evaluate(prim, type, type, args).f, error = testing::ulps(z[i], expected);
    worst = std::max(worst, error);
    ASSERT_LE(error, exact ? 0.0 : 1.0) << ir::info(prim).name << "(" << p.x[i] << ", " << p.y[i] << ") = " << z[i]
                                        << ", exactly " << expected << std::hexfloat << " " << p.x[i] << " " << p.y[i];
  }
  if (std::getenv("LAZULI_ULPS")) std::printf("%-6s max %.3f ulp\n", ir::info(prim).name, worst);
}

INSTANTIATE_TEST_SUITE_P(Functions, Binary,
                         ::testing::Combine(::testing::Values("", "avx2"),
                                            ::testing::Values(Prim::pow, Prim::atan2, Prim::fmod, Prim::mod,
                                                              Prim::floordiv, Prim::minimum, Prim::maximum, Prim::div)),
                         [](const auto& p) {
                           return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") +
                                  ir::info(std::get<1>(p.param)).name;
                         });

}  // namespace
}  // namespace lazuli
