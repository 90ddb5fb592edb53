// Kernels on a GPU against the interpreter, step by step from the same memory. One failure says which step, launch,
// access and element; the first few wrong cases are reported, the others counted.
#include <gtest/gtest.h>

#include "tests/gpu/blocks.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/compare.h"
#include "tests/gpu/kernels.h"
#include "tests/gpu/random_group.h"

namespace lazuli::testing {
namespace {

struct OnGpu : ::testing::Test {
  void SetUp() override {
    std::string why;
    gpu = Gpu::find(why);
    if (!gpu) GTEST_SKIP() << why;
    kernels = std::make_unique<GpuKernels>(*gpu);
  }

  // Runs one step on both and compares all that it stores; `host` then holds the interpreter's results.
  std::string run(const lowering::PlanStep& step, std::vector<std::vector<char>>& host,
                  const std::vector<int64_t>& scalars, double tolerance) {
    std::string launch;
    try {
      const auto ready = kernels->prepare(step);
      launch = " [" + ready.launch.variant.print() + ", grid " + std::to_string(ready.launch.grid[0]) + "x" +
               std::to_string(ready.launch.grid[1]) + "] ";
      GpuBlocks device(*gpu, host);
      kernels->launch(ready, step, device.addresses(), scalars);
      gpu->synchronize();
      interpret_step(step, addresses_of(host), scalars);
      for (size_t a = 0; a < step.blocks.size(); ++a) {
        if (!step.loops.nest.accesses[a].store) continue;
        const std::string wrong = compare_access(step, a, device.read(step.blocks[a]), host[step.blocks[a]], tolerance);
        if (!wrong.empty()) return launch + wrong;
      }
      const std::string status = compare_status(device.read(host.size() - 1), host.back());
      if (!status.empty()) return launch + status;
      return "";
    } catch (const std::exception& e) {
      return launch + e.what();
    }
  }

  void report(const std::string& what, const std::string& wrong, const lowering::PlanStep& step) {
    if (++failures > 6) return;
    ADD_FAILURE() << what << wrong << "\n" << (failures <= 3 ? step.loops.nest.print() : "");
  }

  void TearDown() override {
    if (failures) std::printf("  %d of %d wrong\n", failures, total);
  }

  Gpu* gpu = nullptr;
  std::unique_ptr<GpuKernels> kernels;
  int failures = 0, total = 0;
};

TEST_F(OnGpu, StepsOfPlans) {
  for (const GpuCase& c : small_cases()) {
    const lowering::Plan plan = c.plan();
    std::vector<std::vector<char>> host = filled_blocks(plan);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      ++total;
      const std::string wrong = run(plan.steps[s], host, c.scalars, c.tolerance);
      if (!wrong.empty()) report(c.name + " step " + std::to_string(s), wrong, plan.steps[s]);
    }
  }
}

TEST_F(OnGpu, RandomNests) {
  for (uint64_t seed = 1; seed <= 150; ++seed)
    for (int64_t size : {1, 8, 17, 33, 256, 1000}) {
      RandomStep random(seed, size);
      if (random.scatters()) continue;
      ++total;
      const std::string wrong = run(random.step, random.blocks, {}, 0);
      if (!wrong.empty()) report("seed " + std::to_string(seed) + " size " + std::to_string(size), wrong, random.step);
    }
}

TEST_F(OnGpu, RandomNestsInGroups) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    RandomGroup group(seed, kernels->target());
    const auto& [random, steps, launches] = group;
    if (launches.size() < 2) continue;
    std::vector<std::unique_ptr<GpuBlocks>> device;
    std::vector<std::vector<uint64_t>> blocks;
    for (auto& one : random) {
      device.push_back(std::make_unique<GpuBlocks>(*gpu, one->blocks));
      blocks.push_back(device.back()->addresses());
    }
    const auto ready = kernels->prepare(*steps[0], group_launch(launches));
    kernels->launch(ready, group_arguments(steps, launches, blocks));
    gpu->synchronize();
    for (size_t m = 0; m < steps.size(); ++m) {
      ++total;
      interpret_step(*steps[m], addresses_of(random[m]->blocks), {});
      for (size_t a = 0; a < steps[m]->blocks.size(); ++a) {
        if (!steps[m]->loops.nest.accesses[a].store) continue;
        const std::string wrong = compare_access(*steps[m], a, device[m]->read(a), random[m]->blocks[a], 0);
        if (!wrong.empty()) report("seed " + std::to_string(seed) + " member " + std::to_string(m), wrong, *steps[m]);
      }
    }
  }
}

}  // namespace
}  // namespace lazuli::testing
