// Compiled GPU kernels and the cache that finds them by nest and variant. New ones are generated and linked side by
// side; cubins are also kept on disk, so that another process need not link them again.
#pragma once
#include <span>
#include <string>
#include <vector>
#include "jit/devices/cuda/driver.h"
#include "lowering/nest/gpu_variant.h"

namespace lazuli::jit::cuda {

struct Kernel {
  Function function;
  std::string name;  // "g17_add_mul_sum"
};

struct KernelRequest {
  const lowering::LoopNest* nest;
  lowering::GpuVariant variant;
  std::string label;  // becomes part of a new kernel's name
};

// One for each request. Thread-safe; kernels live for the whole process. Throws std::runtime_error with the linker's
// log.
std::vector<const Kernel*> kernels_for(Context& context, std::span<const KernelRequest> requests);

}  // namespace lazuli::jit::cuda
