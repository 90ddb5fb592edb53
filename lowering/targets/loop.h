// A counted loop in SSA form: for (i = begin; i < end; i += step). `carried` are variables of the caller that hold
// a value before the loop, may be replaced in the body, and hold the last one after it.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace lazuli::lowering {

void emit_loop(llvm::IRBuilder<>& b, const char* name, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
               llvm::ArrayRef<llvm::Value**> carried, const std::function<void(llvm::Value*)>& body);

}  // namespace lazuli::lowering
