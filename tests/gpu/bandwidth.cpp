#include "tests/gpu/bandwidth.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "tests/gpu/blocks.h"
#include "tests/gpu/cases.h"
#include "tests/gpu/kernels.h"

namespace lazuli::testing {
namespace {

constexpr int64_t kBytes = 64 << 20;

// The median of several runs of a few launches each.
double typical_microseconds(Gpu& gpu, const std::function<void()>& work) {
  constexpr int kRuns = 15, kLaunches = 10;
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run)
    times.push_back(gpu.microseconds([&] {
      for (int i = 0; i < kLaunches; ++i) work();
    }) / kLaunches);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

// What has to be moved: each block that is loaded, and each that is stored, once.
double bytes_moved(const lowering::Plan& plan, const lowering::PlanStep& step) {
  std::set<std::pair<uint32_t, bool>> moved;
  for (size_t a = 0; a < step.blocks.size(); ++a) moved.insert({step.blocks[a], step.loops.nest.accesses[a].store});
  double bytes = 0;
  for (auto [block, store] : moved) bytes += static_cast<double>(plan.blocks[block].bytes);
  return bytes;
}

}  // namespace

int print_bandwidth() {
  std::string why;
  Gpu* gpu = Gpu::find(why);
  if (!gpu) return std::printf("no GPU: %s\n", why.c_str()), 1;
  GpuKernels kernels(*gpu);
  const uint64_t from = gpu->allocate(kBytes), to = gpu->allocate(kBytes);
  gpu->copy(to, from, kBytes);
  const double copy = 2.0 * kBytes / typical_microseconds(*gpu, [&] { gpu->copy(to, from, kBytes); }) / 1e3;
  std::printf("%-36s %7.1f us %7.0f GB/s\n", "copy on the device", 2.0 * kBytes / copy / 1e3, copy);
  for (const GpuCase& c : benchmark_cases(kBytes)) {
    const lowering::Plan plan = c.plan();
    std::vector<uint64_t> blocks;
    for (const auto& block : filled_blocks(plan)) {
      blocks.push_back(gpu->allocate(block.size() + 64));
      gpu->upload(blocks.back(), block.data(), block.size());
    }
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      const lowering::PlanStep& step = plan.steps[s];
      const auto ready = kernels.prepare(step);
      const double us = typical_microseconds(*gpu, [&] { kernels.launch(ready, step, blocks, c.scalars); });
      const double speed = bytes_moved(plan, step) / us / 1e3;
      std::printf("%-36s %7.1f us %7.0f GB/s %4.0f %%  step %zu, %s, grid %ux%u\n", c.name.c_str(), us, speed,
                  100 * speed / copy, s, ready.launch.variant.print().c_str(), ready.launch.grid[0],
                  ready.launch.grid[1]);
    }
    for (uint64_t b : blocks) gpu->free(b);
  }
  gpu->free(from);
  gpu->free(to);
  return 0;
}

}  // namespace lazuli::testing
