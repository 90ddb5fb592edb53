#include "tests/gpu/kernels.h"
#include "jit/devices/cuda/ptx_compiler.h"

namespace lazuli::testing {

GpuKernels::Ready GpuKernels::prepare(const lowering::PlanStep& step) {
  return load(step, {choose_launch(step, target_)});
}

GpuKernels::Ready GpuKernels::load(const lowering::PlanStep& step, Ready r) {
  // The newest architecture that the code generator knows.
  constexpr int kNewest = 90;
  if (r.launch.grid[0] == 0) return r;
  Gpu::Function& f = kernels_[{step.loops.nest.hash(), r.launch.variant.hash()}];
  if (!f)
    f = gpu_.load(
        jit::cuda::compile_ptx(step.loops.nest, r.launch.variant, "kernel", std::min(target_.capability, kNewest)),
        "kernel");
  r.function = f;
  return r;
}

void GpuKernels::launch(const Ready& ready, const lowering::PlanStep& step, const std::vector<uint64_t>& blocks,
                        const std::vector<int64_t>& scalars) {
  if (!ready.function) return;
  gpu_.launch(ready.function, ready.launch.grid, ready.launch.threads,
              gpu_arguments(step, ready.launch.variant, blocks, scalars));
}

}  // namespace lazuli::testing
