// Loops and choices in SSA form.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace lazuli::lowering {

// for (i = begin; i < end; i += step). `carried` are variables of the caller that hold a value before the loop, may be
// replaced in the body, and hold the last one after it.
void emit_loop(llvm::IRBuilder<>& b, const char* name, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
               llvm::ArrayRef<llvm::Value**> carried, const std::function<void(llvm::Value*)>& body);

// What the branch that is taken returns; null where they return null.
llvm::Value* choose(llvm::IRBuilder<>& b, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                    const std::function<llvm::Value*()>& otherwise);

}  // namespace lazuli::lowering
