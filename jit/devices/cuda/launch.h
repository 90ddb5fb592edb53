// How a plan and its kernel steps run on a GPU.
#pragma once
#include <span>
#include <vector>
#include "jit/run/executable.h"
#include "lowering/nest/gpu_variant.h"
#include "lowering/plan/plan.h"

namespace lazuli::jit::cuda {

lowering::PlanOptions plan_options(const CompileOptions& options, const lowering::GpuTarget& target);
// The steps of the launch that begins at step `first`.
std::span<const lowering::PlanStep> members(const lowering::Plan& plan, uint32_t first);

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

}  // namespace lazuli::jit::cuda
