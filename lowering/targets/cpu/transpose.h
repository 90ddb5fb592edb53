// Square matrices in vector registers, one row per register, turned round by shuffles.
#pragma once
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::cpu {

// `rows` has as many vectors as each has lanes, a power of two.
llvm::SmallVector<llvm::Value*, 16> transpose(llvm::IRBuilder<>& b, llvm::ArrayRef<llvm::Value*> rows);

}  // namespace lazuli::lowering::cpu
