// From a loop nest to an LLVM module for one target. The code comes out as vector code already, so that no loop
// optimizer has to run: a kernel's compile time is instruction selection and register allocation.
#pragma once
#include <string>

#include "lowering/nest/gpu_variant.h"

namespace llvm {
class Module;
}

namespace lazuli::lowering {

// What the CPU code generator decides by. Both kinds have FMA and F16C.
struct CpuTarget {
  unsigned vector_bits = 256;
  bool masks = false;    // AVX-512: any load, store and arithmetic may be masked per lane
  bool compact = false;  // little code, which is soon made, rather than fast code; it gives the same bits
};

// Adds `symbol`, a KernelFn, to the module, whose target triple, data layout and function attributes (`attributes`
// of "target-cpu" and "target-features") are the caller's affair.
void emit_cpu_kernel(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const CpuTarget& target);

// Adds `symbol`, a kernel for NVPTX that takes what GpuArgsLayout says. Every launch whose variant this is may run it.
void emit_gpu_kernel(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const GpuVariant& variant);

}  // namespace lazuli::lowering
