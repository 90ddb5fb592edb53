// Elements to and from a GPU's memory: neighbours in as few accesses as can be, of up to 16 bytes each, with conversion
// between the type in memory and the compute type.
#pragma once
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::gpu {

inline constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces
inline constexpr unsigned kAccessBytes = 16;

using Values = llvm::SmallVector<llvm::Value*, 8>;

// `lanes` neighbours, aligned by the bytes that they take or by 16.
Values load_neighbours(VectorIR& ir, ir::DType memory, llvm::Value* address, unsigned lanes);
void store_neighbours(VectorIR& ir, ir::DType memory, llvm::Value* address, llvm::ArrayRef<llvm::Value*> x);

llvm::Value* load_one(VectorIR& ir, ir::DType memory, llvm::Value* address);
void store_one(VectorIR& ir, ir::DType memory, llvm::Value* address, llvm::Value* x);

// As they are in memory, for moving without looking at them: in words of 4 bytes (of 8 for elements of 8, of all of
// them if they take less), by accesses of up to `widest` bytes, by which the address is aligned.
Values load_words(VectorIR& ir, ir::DType memory, llvm::Value* address, unsigned lanes, unsigned widest = kAccessBytes);
void store_words(VectorIR& ir, ir::DType memory, llvm::Value* address, const Values& words, unsigned lanes,
                 unsigned widest = kAccessBytes);

// How many elements share such a word, at most.
unsigned per_word(ir::DType memory);

}  // namespace lazuli::lowering::gpu
