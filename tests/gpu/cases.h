// Computations of training, as the steps that a plan has for them: what kernels are generated, compared and timed for.
#pragma once
#include <string>
#include "lowering/plan/plan.h"

namespace lazuli::testing {

struct GpuCase {
  std::string name;
  ir::Graph graph;
  std::vector<int64_t> scalars = {};
  double tolerance = 2e-5;  // relative to the larger of the number and 1
  int threads = 132;        // that reductions are split for: as many as fill a GPU

  lowering::Plan plan() const;
};

// Small, of sizes that lead to every kind of launch.
std::vector<GpuCase> small_cases();
// The kernels that must run at the speed of memory, with operands of `bytes`.
std::vector<GpuCase> benchmark_cases(int64_t bytes);

}  // namespace lazuli::testing
