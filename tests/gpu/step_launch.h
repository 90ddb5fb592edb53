// A step of a plan as launches: the arguments for the interpreter and for a GPU, from the addresses of its blocks,
// after which comes that of a status word.
#pragma once
#include <span>
#include "lowering/nest/gpu_variant.h"
#include "lowering/plan/plan.h"

namespace lazuli::testing {

lowering::GpuLaunch choose_launch(const lowering::PlanStep& step, const lowering::GpuTarget& target = {});

std::vector<int64_t> gpu_arguments(const lowering::PlanStep& step, const lowering::GpuVariant& variant,
                                   std::span<const uint64_t> blocks, std::span<const int64_t> scalars);

// Steps of one variant as the members of one launch: its variant and grid, and its parameter. `blocks`: of each step.
lowering::GpuLaunch group_launch(std::span<const lowering::GpuLaunch> members);
std::vector<int64_t> group_arguments(std::span<const lowering::PlanStep* const> steps,
                                     std::span<const lowering::GpuLaunch> members,
                                     std::span<const std::vector<uint64_t>> blocks);

// Runs the step on host memory, all chunks.
void interpret_step(const lowering::PlanStep& step, std::span<const uint64_t> blocks, std::span<const int64_t> scalars);

}  // namespace lazuli::testing
