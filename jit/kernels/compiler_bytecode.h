// From LLVM's IR of a kernel to bytecode.
#pragma once
#include <memory>
#include "jit/kernels/bytecode.h"

namespace llvm {
class Function;
}

namespace lazuli::jit {

// Null where there is none, so that the kernel has to be compiled.
std::unique_ptr<const bytecode::Program> bytecode_of(const llvm::Function& function);

}  // namespace lazuli::jit
