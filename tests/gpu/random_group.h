// Random nests several times over, with other sizes and memory, as the members of one launch.
#pragma once
#include "tests/gpu/random_step.h"
#include "tests/gpu/step_launch.h"

namespace lazuli::testing {

struct RandomGroup {
  std::vector<std::unique_ptr<RandomStep>> random;
  std::vector<const lowering::PlanStep*> steps;
  std::vector<lowering::GpuLaunch> launches;  // each as if it were alone; all of one variant

  explicit RandomGroup(uint64_t seed, const lowering::GpuTarget& target = {}) {
    for (int64_t size : {256, 512, 33, 1000, 256, 8, 47, 264, 1024}) {
      auto one = std::make_unique<RandomStep>(seed, size);
      const lowering::GpuLaunch launch = choose_launch(one->step, target);
      if (one->scatters() || launch.grid[0] == 0) continue;
      if (!launches.empty() && launch.variant != launches[0].variant) continue;
      launches.push_back(launch);
      steps.push_back(&one->step);
      random.push_back(std::move(one));
    }
  }
};

}  // namespace lazuli::testing
