// Kernels are compiled once per nest, from any thread.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <vector>

#include "jit/kernels/kernel.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

// Before any kernel is made: none is on disk, whatever ran before.
[[maybe_unused]] const int nothing_kept = setenv("LAZULI_CACHE_DIR", "", 0);

lowering::LoopNest scale(double factor) {
  testing::NestBuilder b(lowering::Schedule::Column, 1, 0);
  b.store(b.prim(ir::Prim::mul, b.load(ir::DType::F32), b.literal(factor)), ir::DType::F32);
  return b.nest();
}

auto named(const char* text) {
  return [text] { return std::string(text); };
}

float run(const std::shared_ptr<const jit::Kernel>& kernel, float x) {
  float y = 0;
  const int64_t args[] = {64, 1, reinterpret_cast<int64_t>(&x), reinterpret_cast<int64_t>(&y), 1, 1, 0, 0};
  kernel->function(args, 0, 1);
  return y;
}

TEST(KernelCache, CompilesEachNestOnce) {
  const jit::KernelStats before = jit::kernel_stats();
  const auto first = jit::kernel_for(scale(3.5), named("scale"));
  const auto again = jit::kernel_for(scale(3.5), named("another label"));
  const jit::KernelStats after = jit::kernel_stats();
  EXPECT_EQ(first, again);
  EXPECT_EQ(after.compiled - before.compiled, 1);
  EXPECT_EQ(after.reused - before.reused, 1);
  EXPECT_GT(first->compile_ms, 0);
  EXPECT_NE(first->name.find("scale"), std::string::npos);
  EXPECT_EQ(run(first, 2), 7);
}

TEST(KernelCache, DistinguishesLiterals) {
  EXPECT_EQ(run(jit::kernel_for(scale(0.0), named("zero")), 1), 0);
  EXPECT_TRUE(std::signbit(run(jit::kernel_for(scale(-0.0), named("zero")), 1)));
}

TEST(KernelCache, ForgetsWhatNobodyHas) {
  jit::keep_kernels(40);
  const auto kept = jit::kernel_for(scale(0.25), named("kept"));
  jit::kernel_for(scale(0.125), named("dropped"));
  for (int i = 0; i < 100; ++i) jit::kernel_for(scale(1000 + i), named("many"));
  EXPECT_EQ(run(kept, 8), 2);
  const jit::KernelStats before = jit::kernel_stats();
  EXPECT_EQ(jit::kernel_for(scale(0.25), named("kept")), kept);
  EXPECT_EQ(run(jit::kernel_for(scale(1099), named("new")), 1), 1099);
  EXPECT_EQ(jit::kernel_stats().compiled, before.compiled);
  EXPECT_EQ(run(jit::kernel_for(scale(0.125), named("again")), 8), 1);
  EXPECT_EQ(jit::kernel_stats().compiled, before.compiled + 1);
  jit::keep_kernels(2048);
}

TEST(KernelCache, ServesThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong] {
      for (int i = 0; i < 20; ++i)
        if (run(jit::kernel_for(scale(100 + i), named("threads")), 2) != 2.0f * static_cast<float>(100 + i)) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lazuli
