// Checks in kernels: their status words tell of a lane that fails, wherever it is, and of none past the end.
#include <array>
#include <gtest/gtest.h>

#include "jit/kernels/compiler.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

using ir::DType;
using ir::Prim;
using lowering::LoopNest;
using lowering::Schedule;

// y[i] = 60 / x[i], or the sum of them, where no x may be 0, and then where none may be 7.
LoopNest quotients(Schedule schedule, DType type) {
  const bool sums = schedule == Schedule::Row;
  testing::NestBuilder b(schedule, sums ? 2 : 1, sums);
  const auto x = b.load(type);
  b.check(b.prim(Prim::eq, x, b.literal(0, type)));
  b.check(b.prim(Prim::eq, x, b.literal(7, type)));
  const auto y = b.prim(Prim::div, b.literal(60, type), x);
  if (!sums) {
    b.store(y, type);
    return b.nest();
  }
  const auto sum = b.reduce(lowering::Reduce::Sum, y, type);
  b.stage().row();
  b.store(sum, type, lowering::VectorStride::Zero);
  return b.nest();
}

class Checks : public ::testing::TestWithParam<std::tuple<const char*, Schedule>> {
 protected:
  using Status = std::array<int64_t, 2>;
  // The status words after a run over x; 0 where nothing failed.
  static Status run(const LoopNest& nest, const jit::LoadedKernel& kernel, const std::vector<int32_t>& x) {
    const lowering::KernelArgsLayout at(nest);
    const auto n = static_cast<int64_t>(x.size());
    std::vector<int32_t> y(x.size() + 1);
    std::vector<int64_t> args(at.total);
    Status status{};
    args[0] = 64;
    if (nest.reduced) args[at.sizes] = 1;
    args[at.sizes + nest.rank - 1] = n;
    args[at.pointers] = reinterpret_cast<int64_t>(x.data());
    args[at.pointers + 1] = reinterpret_cast<int64_t>(y.data());
    args[at.status] = reinterpret_cast<int64_t>(status.data());
    const int64_t units = lowering::units(nest, args.data());
    kernel ? kernel(args.data(), 0, units) : lowering::interpret(nest, args.data(), 0, units);
    return status;
  }
};

TEST_P(Checks, FindTheLaneThatFails) {
  const auto [cpu, schedule] = GetParam();
  const LoopNest nest = quotients(schedule, DType::I32);
  jit::Compiler compiler(cpu);
  const jit::LoadedKernel kernel = compiler.load(compiler.compile(nest, "checks"));
  for (const jit::LoadedKernel& f : {kernel, jit::LoadedKernel()})
    for (size_t n : {1, 3, 16, 17, 64, 100, 133}) {
      EXPECT_EQ(run(nest, f, std::vector<int32_t>(n, 5)), Status{}) << n;
      for (size_t bad = 0; bad < n; bad += n > 20 ? 9 : 1) {
        std::vector<int32_t> x(n, 5);
        x[bad] = 0;
        EXPECT_EQ(run(nest, f, x), (Status{1, 0})) << bad << " of " << n;
        x[bad] = 7;
        EXPECT_EQ(run(nest, f, x), (Status{0, 1})) << bad << " of " << n;
        x[n - 1 - bad] = 0;
        EXPECT_EQ(run(nest, f, x), (Status{1, x[bad] == 7})) << bad << " of " << n;
      }
    }
}

// A divisor that is the same for all elements is looked at outside the loop, if there are elements.
TEST_P(Checks, OfNothingPass) {
  const auto [cpu, schedule] = GetParam();
  const bool sums = schedule == Schedule::Row;
  testing::NestBuilder b(schedule, sums ? 2 : 1, sums);
  const auto x = b.load(DType::I32), by = b.load(DType::I32, lowering::VectorStride::Zero);
  b.check(b.prim(Prim::eq, by, b.literal(0, DType::I32)));
  const auto y = b.prim(Prim::div, x, by);
  if (sums) {
    const auto sum = b.reduce(lowering::Reduce::Sum, y, DType::I32);
    b.stage().row();
    b.store(sum, DType::I32, lowering::VectorStride::Zero);
  } else {
    b.store(y, DType::I32);
  }
  const LoopNest& nest = b.nest();
  jit::Compiler compiler(cpu);
  const jit::LoadedKernel kernel = compiler.load(compiler.compile(nest, "nothing"));
  const lowering::KernelArgsLayout at(nest);
  for (int64_t n : {0, 1, 70}) {
    std::vector<int32_t> data(71, 1), out(71);
    int32_t divisor = 0;
    int64_t status = 0;
    std::vector<int64_t> args(at.total);
    args[0] = 64;
    if (sums) args[at.sizes] = 1;
    args[at.sizes + nest.rank - 1] = n;
    args[at.pointers] = reinterpret_cast<int64_t>(data.data());
    args[at.pointers + 1] = reinterpret_cast<int64_t>(&divisor);
    args[at.pointers + 2] = reinterpret_cast<int64_t>(out.data());
    args[at.status] = reinterpret_cast<int64_t>(&status);
    kernel(args.data(), 0, lowering::units(nest, args.data()));
    EXPECT_EQ(status, n ? 1 : 0) << n;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Checks,
                         ::testing::Combine(::testing::Values("", "avx2"),
                                            ::testing::Values(Schedule::Row, Schedule::Column)),
                         [](const auto& p) {
                           return std::string(*std::get<0>(p.param) ? "avx2_" : "native_") +
                                  (std::get<1>(p.param) == Schedule::Row ? "row" : "column");
                         });

}  // namespace
}  // namespace lazuli
