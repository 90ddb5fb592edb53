// Kernels that run long get faster code, which gives the same.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "jit/kernels/improvement.h"
#include "tests/lowering/nest_builder.h"

namespace lazuli {
namespace {

using namespace std::chrono_literals;

// Before any kernel is made: none is on disk, whatever ran before.
[[maybe_unused]] const int nothing_kept = setenv("LAZULI_CACHE_DIR", "", 0);

// The other tests are of compiled code. Bytecode gives the same (codegen_random_nests.cpp).
[[maybe_unused]] const int compiled_only = setenv("LAZULI_BYTECODE", "never", 0);

class KernelBytecode : public ::testing::Test {
 protected:
  void SetUp() override { jit::use_bytecode(jit::BytecodeUse::Auto); }
  void TearDown() override { jit::use_bytecode(before_); }

 private:
  const jit::BytecodeUse before_ = jit::bytecode_use();
};

std::shared_ptr<const jit::Kernel> kernel_of(double factor, const jit::Extent& extent = jit::kLarge) {
  testing::NestBuilder b(lowering::Schedule::Column, 1, 0);
  b.store(b.prim(ir::Prim::exp, b.prim(ir::Prim::mul, b.load(ir::DType::F32), b.literal(factor))), ir::DType::F32);
  return jit::kernel_for(b.nest(), [] { return std::string("improved"); }, extent);
}

constexpr int kElements = 1000;

std::vector<float> run(const jit::Kernel& kernel) {
  std::vector<float> x(kElements), y(kElements);
  for (int i = 0; i < kElements; ++i) x[static_cast<size_t>(i)] = 0.01f * static_cast<float>(i);
  const int64_t args[] = {
      kElements, kElements, reinterpret_cast<int64_t>(x.data()), reinterpret_cast<int64_t>(y.data()), 1, 1, 0, 0};
  kernel.function(args, 0, 1);
  return y;
}

// Who asks does not wait for others, so that one request may be lost.
void improve(const std::shared_ptr<const jit::Kernel>& kernel) {
  for (int i = 0; i < 1000 && !kernel->function.is_fast(); ++i) {
    jit::ran(kernel, i == 0 ? 10ms : 1us);
    jit::finish_improvements();
  }
}

TEST(KernelImprovement, ComesInTheBackground) {
  const auto kernel = kernel_of(-0.5);
  const std::vector<float> before = run(*kernel);
  jit::ran(kernel, 1us);
  jit::finish_improvements();
  EXPECT_FALSE(kernel->function.is_fast());
  improve(kernel);
  EXPECT_TRUE(kernel->function.is_fast());
  EXPECT_EQ(run(*kernel), before);
}

TEST(KernelImprovement, IsMadeByWhoeverRunsAKernelTooLong) {
  const auto kernel = kernel_of(-0.25);
  const std::vector<float> before = run(*kernel);
  for (int i = 0; i < 1000 && !kernel->function.is_fast(); ++i) jit::ran(kernel, 1s);
  EXPECT_TRUE(kernel->function.is_fast());
  EXPECT_EQ(run(*kernel), before);
}

TEST(KernelImprovement, MayComeWhileTheKernelRuns) {
  std::atomic<bool> done = false;
  std::atomic<int> different = 0;
  std::vector<std::shared_ptr<const jit::Kernel>> kernels;
  for (int i = 0; i < 4; ++i) kernels.push_back(kernel_of(0.001 * i));
  std::vector<std::vector<float>> expected;
  for (const auto& kernel : kernels) expected.push_back(run(*kernel));
  std::thread runner([&] {
    while (!done)
      for (size_t i = 0; i < kernels.size(); ++i) different += run(*kernels[i]) != expected[i];
  });
  for (const auto& kernel : kernels) improve(kernel);
  for (size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_TRUE(kernels[i]->function.is_fast());
    EXPECT_EQ(run(*kernels[i]), expected[i]);
  }
  done = true;
  runner.join();
  EXPECT_EQ(different, 0);
}

constexpr jit::Extent kSmall{.turns = 1, .rows = 1};

TEST_F(KernelBytecode, IsCompiledIfItRunsLong) {
  const auto kernel = kernel_of(0.5, kSmall);
  ASSERT_FALSE(kernel->function.is_compiled());
  const std::vector<float> before = run(*kernel);
  jit::ran(kernel, 1us);
  jit::finish_improvements();
  jit::ran(kernel, 1us);
  EXPECT_FALSE(kernel->function.is_compiled());
  for (int i = 0; i < 1000 && !kernel->function.is_compiled(); ++i) {
    jit::ran(kernel, i == 0 ? 200us : 1us);
    jit::finish_improvements();
  }
  EXPECT_TRUE(kernel->function.is_compiled());
  EXPECT_FALSE(kernel->function.is_fast());
  EXPECT_EQ(run(*kernel), before);
  improve(kernel);
  EXPECT_TRUE(kernel->function.is_fast());
  EXPECT_EQ(run(*kernel), before);
}

TEST_F(KernelBytecode, IsCompiledByWhoeverRunsItTooLong) {
  const auto kernel = kernel_of(0.25, kSmall);
  const std::vector<float> before = run(*kernel);
  jit::ran(kernel, 10ms);
  EXPECT_TRUE(kernel->function.is_compiled());
  EXPECT_EQ(run(*kernel), before);
}

TEST_F(KernelBytecode, IsCompiledBeforeALargeLaunch) {
  const auto kernel = kernel_of(0.125, kSmall);
  const std::vector<float> before = run(*kernel);
  jit::expect(*kernel, kSmall);
  EXPECT_FALSE(kernel->function.is_compiled());
  jit::expect(*kernel, {.turns = 1e6, .rows = 1});
  EXPECT_TRUE(kernel->function.is_compiled());
  EXPECT_EQ(run(*kernel), before);
  EXPECT_EQ(kernel_of(0.0625, {.turns = 1e6, .rows = 1})->function.is_compiled(), true);
}

TEST_F(KernelBytecode, StaysWhereItAlwaysIsWanted) {
  jit::use_bytecode(jit::BytecodeUse::Always);
  const auto kernel = kernel_of(0.03125, {.turns = 1e6, .rows = 1});
  for (int i = 0; i < 10; ++i) jit::ran(kernel, 1s);
  EXPECT_FALSE(kernel->function.is_compiled());
  jit::use_bytecode(jit::BytecodeUse::Never);
  EXPECT_TRUE(kernel_of(0.015625, kSmall)->function.is_compiled());
}

TEST(KernelImprovement, GoesOnInAForkedProcess) {
  const auto kernel = kernel_of(-0.125);
  const std::vector<float> before = run(*kernel);
  jit::ran(kernel_of(-0.0625), 10ms);  // the thread is most likely at it
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    improve(kernel);
    _exit(kernel->function.is_fast() && run(*kernel) == before ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace lazuli
