// Code for devices that this machine has not: what is compiled for the CPU may be compiled for each of them too, and
// left as text. So every test also says which kernels it would have run there.
#pragma once
#include "jit/run/executable.h"

namespace lazuli::jit {

// Does nothing unless the environment asks for it, and throws what compiling for such a device would.
void emit_for_absent_devices(const ir::Graph& graph, const CompileOptions& options);

}  // namespace lazuli::jit
