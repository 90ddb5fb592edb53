// How a plan's kernel step runs on a GPU.
#pragma once
#include <span>
#include <vector>
#include "lowering/gpu.h"
#include "lowering/plan.h"

namespace lazuli::jit::cuda {

// Throws std::runtime_error for a step that no kernel of a GPU can be.
lowering::GpuLaunch choose_launch(const lowering::PlanStep& step, const lowering::GpuTarget& target);

// Launches of steps that share a nest and wait for nothing of each other: those of equal variant are put together, as
// many as the kernel's parameter holds.
struct GroupLaunch {
  lowering::GpuVariant variant;
  std::vector<lowering::GpuLaunch> members;  // each as if it were alone
  std::vector<size_t> steps;                 // their numbers in the list
  uint32_t threads = 0;
};
// Where a member begins in the grid of all; for one past the last, the grid's size.
int64_t first_block(const GroupLaunch& group, size_t member);
std::vector<GroupLaunch> choose_launches(std::span<const lowering::PlanStep> steps, const lowering::GpuTarget& target);

// With LAZULI_CHECK_PTX=90 in the environment, makes the kernels of the steps of a launch for sm_90 and links them, for
// nothing but the errors: so every test of the CPU also says whether its kernels would build for a GPU, where there is
// none.
void check_for_gpu(std::span<const lowering::PlanStep> steps);

}  // namespace lazuli::jit::cuda
