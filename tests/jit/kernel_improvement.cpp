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

std::shared_ptr<const jit::Kernel> kernel_of(double factor) {
  testing::NestBuilder b(lowering::Schedule::Column, 1, 0);
  b.store(b.prim(ir::Prim::exp, b.prim(ir::Prim::mul, b.load(ir::DType::F32), b.literal(factor))), ir::DType::F32);
  return jit::kernel_for(b.nest(), [] { return std::string("improved"); });
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
