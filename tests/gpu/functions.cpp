// Elementary functions on a GPU, which has instructions and code of its own for some, in units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/interpret/scalar.h"
#include "tests/gpu/blocks.h"
#include "tests/gpu/kernels.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Prim;

struct GpuFunctions : ::testing::Test {
  void SetUp() override {
    std::string why;
    gpu = Gpu::find(why);
    if (!gpu) GTEST_SKIP() << why;
  }

  // A step that applies the primitive to every element of block 0, and to block 1 if it takes two.
  static lowering::PlanStep step_of(Prim prim, DType t, int64_t n) {
    NestBuilder b(lowering::Schedule::Column, 1, 0);
    const uint16_t x = b.load(t), y = ir::info(prim).arity > 1 ? b.load(t) : x;
    b.store(b.prim(prim, x, y), t);
    lowering::PlanStep step;
    step.loops.nest = b.nest();
    step.loops.sizes = {n};
    for (size_t a = 0; a < b.nest().accesses.size(); ++a) {
      lowering::BoundAccess access;
      access.strides = {1};
      step.loops.accesses.push_back(access);
      step.blocks.push_back(static_cast<uint32_t>(a));
    }
    return step;
  }

  static double ulps(double got, long double exact, DType t) {
    const double rounded =
        t == DType::F32 ? static_cast<double>(static_cast<float>(exact)) : static_cast<double>(exact);
    if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) && std::isnan(got) ? 0 : INFINITY;
    if (got == rounded) return 0;
    if (std::isinf(rounded) || std::isinf(got)) return INFINITY;
    const int lowest = t == DType::F32 ? -126 : -1022, digits = t == DType::F32 ? 23 : 52;
    const int exponent = exact == 0 ? lowest : std::max(std::ilogb(exact), lowest);
    return static_cast<double>(std::fabs(got - exact) / std::ldexp(1.0L, exponent - digits));
  }

  void check(Prim prim, DType t, double limit) {
    const int64_t n = 1 << 18, item = ir::item_size(t);
    const lowering::PlanStep step = step_of(prim, t, n);
    std::vector<std::vector<char>> host(step.blocks.size(), std::vector<char>(static_cast<size_t>(n * item)));
    std::mt19937_64 rng(11);
    std::uniform_real_distribution<double> wide(-100, 100), narrow(-2, 2);
    for (auto& block : host)
      for (int64_t i = 0; i < n; ++i) {
        const double special[] = {0.0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-40, 3e38};
        const double x = i < 9        ? special[i]
                         : i % 3 == 0 ? std::ldexp(narrow(rng), static_cast<int>(rng() % 240) - 120)
                         : i % 3 == 1 ? wide(rng)
                                      : narrow(rng);
        ir::store_number(&block[i * item], t, {x, 0});
      }
    GpuKernels kernels(*gpu);
    GpuBlocks device(*gpu, host);
    kernels.launch(kernels.prepare(step), step, device.addresses(), {});
    gpu->synchronize();
    const std::vector<char> out = device.read(step.blocks.back());
    ASSERT_FALSE(out.empty()) << "written outside its memory";
    double worst = 0;
    ir::Number at[2];
    for (int64_t i = 0; i < n; ++i) {
      ir::Number x[2] = {ir::load_number(&host[0][i * item], t), ir::load_number(&host[host.size() - 2][i * item], t)};
      const double got = ir::load_number(&out[i * item], t).f;
      const double error = ulps(got, ir::evaluate(prim, DType::F64, DType::F64, x).f, t);
      if (error > worst) worst = error, at[0] = x[0], at[1] = x[1];
    }
    if (worst > limit)
      ADD_FAILURE() << ir::info(prim).name << " " << ir::name(t) << ": " << worst << " units at " << std::hexfloat
                    << at[0].f << ", " << at[1].f;
  }

  Gpu* gpu = nullptr;
};

TEST_F(GpuFunctions, AreWithinAFewUnitsInTheLastPlace) {
  for (DType t : {DType::F32, DType::F64}) {
    for (Prim p = Prim::sqrt; p <= Prim::erfc; p = static_cast<Prim>(static_cast<int>(p) + 1))
      check(p, t, t == DType::F32 ? 3 : 6);
    for (Prim p : {Prim::div, Prim::pow, Prim::atan2}) check(p, t, t == DType::F32 ? 1.5 : 6);
    check(Prim::fmod, t, 0);
  }
}

}  // namespace
}  // namespace lazuli::testing
