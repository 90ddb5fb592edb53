// GPU kernels on the CPU: the kernel's own LLVM IR compiled for this machine, its threads as coroutines that meet at
// barriers and shuffles. Slow, but it tells wrong code from right where there is no GPU, and traps where a GPU would on
// a misaligned access, a barrier that some threads never reach or a shuffle that a part of a warp has left.
#pragma once
#include <memory>
#include <vector>
#include "lowering/nest/gpu_variant.h"

namespace lazuli::testing {

class EmulatedKernel {
 public:
  EmulatedKernel(const lowering::LoopNest& nest, const lowering::GpuVariant& variant);
  ~EmulatedKernel();
  EmulatedKernel(EmulatedKernel&&) noexcept;

  // Throws if threads wait for each other forever.
  void launch(const lowering::GpuLaunch& launch, const std::vector<int64_t>& args) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lazuli::testing
