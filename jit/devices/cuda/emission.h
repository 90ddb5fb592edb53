// Kernels for a GPU from a machine without one. With LAZULI_EMIT_PTX=<folder> in the environment, whatever is compiled
// for the CPU is planned for a GPU as well, and that plan's kernels are left in the folder as PTX for sm_90: one file
// for each nest and variant, whichever process came first. So every test also says which kernels it would have run on a
// GPU; lazuli_gpu_tests --link makes machine code of them.
#pragma once
#include <string>
#include "jit/run/executable.h"
#include "lowering/nest/gpu_variant.h"

namespace lazuli::jit::cuda {

// Both do nothing without LAZULI_EMIT_PTX, and throw what compiling for a GPU would.
void emit_for_gpu(const ir::Graph& graph, const CompileOptions& options);
// One kernel; `of` says to a reader where it comes from.
void emit_for_gpu(const lowering::LoopNest& nest, const lowering::GpuVariant& variant, const std::string& of);

}  // namespace lazuli::jit::cuda
