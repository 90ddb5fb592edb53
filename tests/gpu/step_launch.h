// A step of a plan as launches: the arguments for the interpreter and for a GPU, from the addresses of its blocks, after
// which comes that of a status word.
#pragma once
#include <span>
#include "lowering/gpu.h"
#include "lowering/plan.h"

namespace lazuli::testing {

lowering::GpuLaunch choose_launch(const lowering::PlanStep& step, const lowering::GpuTarget& target = {});

std::vector<int64_t> gpu_arguments(const lowering::PlanStep& step, const lowering::GpuVariant& variant,
                                   std::span<const uint64_t> blocks, std::span<const int64_t> scalars);

// Runs the step on host memory, all chunks.
void interpret_step(const lowering::PlanStep& step, std::span<const uint64_t> blocks, std::span<const int64_t> scalars);

}  // namespace lazuli::testing
