// Kernels become PTX that the assembler takes, for both architectures, and those that must be fast keep to registers.
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "jit/devices/cuda/ptx_compiler.h"
#include "tests/gpu/assembler.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/random_step.h"
#include "tests/gpu/step_launch.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli::testing {
namespace {

// Compiled once for each nest and variant, as a kernel cache would.
struct Code : ::testing::Test {
  void SetUp() override {
    std::string name;
    if (!has_assembler(name)) GTEST_SKIP() << name;
  }

  void check_both(const std::string& what, const lowering::LoopNest& nest, const lowering::GpuVariant& variant) {
    for (int capability : {80, 90}) check(what, nest, variant, capability);
  }

  Assembled check(const std::string& what, const lowering::LoopNest& nest, const lowering::GpuVariant& variant,
                  int capability) {
    if (!seen_.insert({nest.hash(), variant.hash() + static_cast<uint64_t>(capability)}).second) return {};
    const auto start = std::chrono::steady_clock::now();
    const std::string ptx = jit::cuda::compile_ptx(nest, variant, "kernel", capability);
    emit_ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    ++kernels;
    Assembled a = assemble(ptx, capability);
    assemble_ms += a.ms;
    EXPECT_TRUE(a.ok) << what << ", " << variant.print() << "\n" << a.log << nest.print() << ptx;
    return a;
  }

  std::set<std::pair<uint64_t, uint64_t>> seen_;
  double emit_ms = 0, assemble_ms = 0;
  int kernels = 0;
};

TEST_F(Code, OfStepsAssembles) {
  for (const GpuCase& c : small_cases())
    for (const lowering::PlanStep& step : c.plan().steps) {
      const lowering::GpuVariant variant = choose_launch(step).variant;
      check_both(c.name, step.loops.nest, variant);
      if (HasFailure()) return;
    }
}

// What --link relies on. If they are to differ one day, emission.cpp must write both.
TEST(CodeText, DiffersOnlyInWhatOverlaps) {
  auto expect_same = [](const lowering::PlanStep& step) {
    const lowering::GpuVariant variant = choose_launch(step).variant;
    EXPECT_EQ(choose_launch(step, {.capability = 80}).variant, variant);
    const std::string newer = jit::cuda::compile_ptx(step.loops.nest, variant, "kernel", 90);
    EXPECT_EQ(jit::cuda::compile_ptx(step.loops.nest, variant, "kernel", 80), for_capability(newer, 80));
  };
  for (const GpuCase& c : small_cases())
    for (const lowering::PlanStep& step : c.plan().steps) expect_same(step);
  for (uint64_t seed = 1; seed <= 150; ++seed) expect_same(RandomStep(seed, 1000).step);
}

TEST_F(Code, OfRandomNestsAssembles) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const RandomStep random(seed, seed % 3 == 0 ? 1000 : seed % 3 == 1 ? 37 : 8);
    const lowering::GpuVariant variant = choose_launch(random.step).variant;
    check_both("seed " + std::to_string(seed), random.step.loops.nest, variant);
    if (HasFailure()) return;
  }
}

TEST_F(Code, OfGroupsAssembles) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const RandomStep random(seed, seed % 2 ? 1000 : 37);
    lowering::GpuVariant variant = choose_launch(random.step).variant;
    const size_t most = lowering::gpu_members(random.step.loops.nest, 128);
    variant.members = static_cast<uint16_t>(std::min<size_t>(size_t{2} << seed % 7, most));
    check_both("seed " + std::to_string(seed), random.step.loops.nest, variant);
    if (HasFailure()) return;
    const std::string ptx = jit::cuda::compile_ptx(random.step.loops.nest, variant, "kernel", 90);
    EXPECT_EQ(ptx.find(".local"), std::string::npos) << "arguments are copied to the stack: " << ptx;
  }
}

TEST_F(Code, OfFunctionsAssembles) {
  using ir::Prim;
  std::vector<Prim> prims = {Prim::div, Prim::pow, Prim::atan2, Prim::fmod, Prim::mod, Prim::floordiv};
  for (Prim p = Prim::sqrt; p <= Prim::erfc; p = static_cast<Prim>(static_cast<int>(p) + 1)) prims.push_back(p);
  for (Prim p : prims)
    for (ir::DType t : {ir::DType::F32, ir::DType::F64}) {
      NestBuilder b(lowering::Schedule::Column, 1, 0);
      const uint16_t x = b.load(t), y = ir::info(p).arity > 1 ? b.load(t) : x;
      b.store(b.prim(p, x, y), t);
      check_both(ir::info(p).name, b.nest(), {});
    }
}

TEST_F(Code, OfManyAccessesAssembles) {
  NestBuilder b(lowering::Schedule::Column, 4, 0);
  auto sum = b.load(ir::DType::F32);
  for (int i = 0; i < 150; ++i) sum = b.prim(ir::Prim::add, sum, b.load(ir::DType::F32, lowering::VectorStride::Any));
  b.store(sum, ir::DType::F32);
  ASSERT_TRUE(lowering::fits_gpu(b.nest()));
  ASSERT_GT(lowering::GpuArgsLayout(b.nest(), true).total * 8, 4096u);
  check_both("151 loads", b.nest(), {});
}

TEST_F(Code, OfWhatMustBeFastDoesNotSpill) {
  for (int capability : {80, 90}) {
    std::printf("  sm_%d\n", capability);
    for (const GpuCase& c : benchmark_cases(64 << 20))
      for (const lowering::PlanStep& step : c.plan().steps) {
        const lowering::GpuLaunch launch = choose_launch(step, {.capability = capability});
        const double before = emit_ms;
        const Assembled a = check(c.name, step.loops.nest, launch.variant, capability);
        if (a.ok)
          std::printf("  %-36s %3d registers, %d bytes spilled, %5d shared, %.1f + %.0f ms, %s\n", c.name.c_str(),
                      a.registers, a.spill_bytes, std::max(a.shared_bytes, 0), emit_ms - before, a.ms,
                      launch.variant.print().c_str());
        EXPECT_EQ(a.spill_bytes, a.ok ? 0 : -1)
            << c.name << ", sm_" << capability << ", " << launch.variant.print() << "\n"
            << step.loops.nest.print();
      }
  }
  std::printf("  %d kernels: %.1f ms to PTX, %.1f ms to machine code each\n", kernels, emit_ms / kernels,
              assemble_ms / kernels);
}

}  // namespace
}  // namespace lazuli::testing
