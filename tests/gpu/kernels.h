// Steps compiled for and launched on the GPU of this machine.
#pragma once
#include <map>
#include "tests/gpu/gpu.h"
#include "tests/gpu/step_launch.h"

namespace lazuli::testing {

class GpuKernels {
 public:
  explicit GpuKernels(Gpu& gpu) : gpu_(gpu) {
    target_.capability = gpu.capability();
    target_.multiprocessors = gpu.multiprocessors();
  }

  struct Ready {
    lowering::GpuLaunch launch;
    Gpu::Function function = nullptr;  // null: nothing to do
  };
  Ready prepare(const lowering::PlanStep& step);
  // Steps of one variant in one launch (group_launch).
  Ready prepare(const lowering::PlanStep& step, const lowering::GpuLaunch& group) { return load(step, {group}); }
  void launch(const Ready& ready, const std::vector<int64_t>& args) {
    gpu_.launch(ready.function, ready.launch.grid, ready.launch.threads, args);
  }
  const lowering::GpuTarget& target() const { return target_; }
  void launch(const Ready& ready, const lowering::PlanStep& step, const std::vector<uint64_t>& blocks,
              const std::vector<int64_t>& scalars);

 private:
  Ready load(const lowering::PlanStep& step, Ready r);

  Gpu& gpu_;
  lowering::GpuTarget target_;
  std::map<std::pair<uint64_t, uint64_t>, Gpu::Function> kernels_;
};

}  // namespace lazuli::testing
