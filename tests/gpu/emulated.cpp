// Kernels, emulated on the CPU, against the interpreter: what can be known about them without a GPU.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/gpu/blocks.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/compare.h"
#include "tests/gpu/emulator.h"
#include "tests/gpu/random_group.h"
#include "tests/gpu/step_launch.h"

namespace lazuli::testing {
namespace {

// Blocks between guards, aligned as a GPU's are.
class AlignedBlocks {
 public:
  explicit AlignedBlocks(const std::vector<std::vector<char>>& host) {
    for (const auto& block : host) {
      const size_t padded = (block.size() + 63) / 64 * 64 + 2 * kGuard;
      memory_.emplace_back(static_cast<char*>(std::aligned_alloc(64, padded)), &std::free);
      std::memset(memory_.back().get(), kFill, padded);
      std::memcpy(memory_.back().get() + kGuard, block.data(), block.size());
      addresses_.push_back(reinterpret_cast<uint64_t>(memory_.back().get() + kGuard));
      bytes_.push_back(block.size());
    }
  }
  const std::vector<uint64_t>& addresses() const { return addresses_; }
  std::vector<char> read(size_t b) const {
    const char* m = memory_[b].get();
    for (size_t i = 0; i < kGuard; ++i)
      if (m[i] != kFill || m[kGuard + bytes_[b] + i] != kFill) return {};
    return {m + kGuard, m + kGuard + bytes_[b]};
  }

 private:
  static constexpr size_t kGuard = 128;
  static constexpr char kFill = 0x5A;
  std::vector<std::unique_ptr<char, void (*)(void*)>> memory_;
  std::vector<uint64_t> addresses_;
  std::vector<size_t> bytes_;
};

std::string run(const lowering::PlanStep& step, std::vector<std::vector<char>>& host,
                const std::vector<int64_t>& scalars, double tolerance, lowering::GpuLaunch launch) {
  const std::string where = " [" + launch.variant.print() + ", grid " + std::to_string(launch.grid[0]) + "x" +
                            std::to_string(launch.grid[1]) + "] ";
  if (std::getenv("LAZULI_VARIANTS")) std::printf("%s\n", where.c_str());
  try {
    AlignedBlocks device(host);
    if (launch.grid[0])
      EmulatedKernel(step.loops.nest, launch.variant)
          .launch(launch, gpu_arguments(step, launch.variant, device.addresses(), scalars));
    interpret_step(step, addresses_of(host), scalars);
    for (size_t a = 0; a < step.blocks.size(); ++a) {
      if (!step.loops.nest.accesses[a].store) continue;
      const std::string wrong = compare_access(step, a, device.read(step.blocks[a]), host[step.blocks[a]], tolerance);
      if (!wrong.empty()) return where + wrong;
    }
    const std::string status = compare_status(device.read(host.size() - 1), host.back());
    if (!status.empty()) return where + status;
  } catch (const std::exception& e) {
    return where + e.what();
  }
  return "";
}

TEST(Emulated, StepsOfPlans) {
  for (const GpuCase& c : small_cases()) {
    const lowering::Plan plan = c.plan();
    std::vector<std::vector<char>> host = filled_blocks(plan);
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const lowering::PlanStep& step = plan.steps[s];
      EXPECT_EQ(run(step, host, c.scalars, c.tolerance, choose_launch(step)), "") << c.name << " step " << s << "\n"
                                                                                  << step.loops.nest.print();
    }
  }
}

TEST(Emulated, RandomNests) {
  for (uint64_t seed = 1; seed <= 120; ++seed)
    for (int64_t size : {1, 8, 17, 33, 256}) {
      RandomStep random(seed, size);
      if (random.scatters()) continue;
      const lowering::GpuLaunch launch = choose_launch(random.step);
      ASSERT_EQ(run(random.step, random.blocks, {}, 0, launch), "") << "seed " << seed << " size " << size << "\n"
                                                                    << random.step.loops.nest.print();
    }
}

// Variants that these sizes do not lead to.
TEST(Emulated, RandomNestsAsIfLarger) {
  for (uint64_t seed = 1; seed <= 60; ++seed)
    for (int64_t size : {33, 256}) {
      RandomStep random(seed, size);
      if (random.scatters()) continue;
      lowering::GpuLaunch launch = choose_launch(random.step);
      launch.variant.wide = true;
      if (launch.variant.resident && !random.step.loops.nest.accumulates()) {
        launch.variant.resident = false;
        launch.variant.passes = seed % 2 ? 1 : 2;
      }
      ASSERT_EQ(run(random.step, random.blocks, {}, 0, launch), "") << "seed " << seed << " size " << size << "\n"
                                                                    << random.step.loops.nest.print();
    }
}

// Several steps to a launch, each with memory and sizes of its own.
TEST(Emulated, RandomNestsInGroups) {
  size_t most = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    RandomGroup group(seed);
    const auto& [random, steps, launches] = group;
    if (launches.size() < 2) continue;
    most = std::max(most, launches.size());
    std::vector<AlignedBlocks> device;
    std::vector<std::vector<uint64_t>> blocks;
    for (auto& one : random) {
      device.emplace_back(one->blocks);
      blocks.push_back(device.back().addresses());
    }
    const lowering::GpuLaunch launch = group_launch(launches);
    EmulatedKernel(steps[0]->loops.nest, launch.variant).launch(launch, group_arguments(steps, launches, blocks));
    for (size_t m = 0; m < steps.size(); ++m) {
      interpret_step(*steps[m], addresses_of(random[m]->blocks), {});
      for (size_t a = 0; a < steps[m]->blocks.size(); ++a)
        if (steps[m]->loops.nest.accesses[a].store) {
          ASSERT_EQ(compare_access(*steps[m], a, device[m].read(a), random[m]->blocks[a], 0), "")
              << "seed " << seed << " member " << m << " of " << launch.variant.print();
        }
    }
  }
  EXPECT_GE(most, 5u);
}

// The emulator itself: a launch that leaves something out is noticed.
TEST(Emulated, NoticesMissingBlocks) {
  for (const GpuCase& c : small_cases()) {
    const lowering::Plan plan = c.plan();
    std::vector<std::vector<char>> host = filled_blocks(plan);
    lowering::GpuLaunch launch = choose_launch(plan.steps[0]);
    if (launch.grid[0] < 2) continue;
    --launch.grid[0];
    EXPECT_NE(run(plan.steps[0], host, c.scalars, c.tolerance, launch), "") << c.name;
  }
}

}  // namespace
}  // namespace lazuli::testing
