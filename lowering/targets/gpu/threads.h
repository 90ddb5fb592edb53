// What a GPU thread knows of itself and shares with its neighbours: special registers, barriers, shuffles.
#pragma once
#include <llvm/IR/IRBuilder.h>

namespace lazuli::lowering::gpu {

llvm::Value* thread_index(llvm::IRBuilder<>& b);               // i32, within the block
llvm::Value* block_index(llvm::IRBuilder<>& b, unsigned dim);  // i32, within the grid
void block_barrier(llvm::IRBuilder<>& b);                      // every thread of the block comes here
void warp_barrier(llvm::IRBuilder<>& b);                       // every thread of the warp comes here
// The value that the thread of number (own xor `distance`) in the warp has; all threads of the warp come here.
llvm::Value* exchange(llvm::IRBuilder<>& b, llvm::Value* x, unsigned distance);
// `bytes` of the block's shared memory, as a pointer to it.
llvm::Value* shared_memory(llvm::IRBuilder<>& b, uint64_t bytes);

}  // namespace lazuli::lowering::gpu
