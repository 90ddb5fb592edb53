// PTX for loop nests. Needs no GPU and no CUDA: assembling the text is somebody else's work.
#pragma once
#include <string>

#include "lowering/nest/gpu_variant.h"

namespace lazuli::jit::cuda {

// From this capability on kernels overlap: one may start while those before it in its stream still run, and waits
// itself for all that they write, before it touches memory (griddepcontrol in the PTX manual). Every kernel does; so
// one that has ended has seen the end of all before it.
inline constexpr int kOverlapping = 90;

// Thread-safe; compiles run side by side. `capability`: 80 or more, as 10 times major plus minor. Throws InternalError.
std::string compile_ptx(const lowering::LoopNest& nest, const lowering::GpuVariant& variant, const std::string& symbol,
                        int capability);
std::string gpu_ir_text(const lowering::LoopNest& nest, const lowering::GpuVariant& variant, const std::string& symbol);

}  // namespace lazuli::jit::cuda
