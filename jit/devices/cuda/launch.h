// How a plan's kernel step runs on a GPU.
#pragma once
#include "lowering/gpu.h"
#include "lowering/plan.h"

namespace lazuli::jit::cuda {

// Throws std::runtime_error for a step that no kernel of a GPU can be.
lowering::GpuLaunch choose_launch(const lowering::PlanStep& step, const lowering::GpuTarget& target);

// With LAZULI_CHECK_PTX=90 in the environment, makes the step's kernel for sm_90 and links it, for nothing but the errors:
// so every test of the CPU also says whether its kernels would build for a GPU, where there is none.
void check_for_gpu(const lowering::PlanStep& step);

}  // namespace lazuli::jit::cuda
