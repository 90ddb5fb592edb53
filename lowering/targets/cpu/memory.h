// Vectors of elements to and from memory, with conversion between the type in memory and the compute type.
#pragma once
#include "lowering/nest/codegen.h"
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering::cpu {

// Where the lanes of one vector lie.
struct Place {
  llvm::Value* address;           // of lane 0
  llvm::Value* stride = nullptr;  // bytes from lane to lane; null: dense
  bool backward = false;          // the stride is that of the element before
  llvm::Value* pairs = nullptr;   // the stride is two elements: where the pairs of elements begin that the lanes are of
  bool second = false;            // the lanes are the second ones of those
  bool alone = false;             // there may be no second one after the last lane
  llvm::Value* offsets = nullptr;  // i64 per lane, bytes, on top of that: an index per lane
  llvm::Value* count = nullptr;    // only lanes [0, count) exist, and count >= 1; null: all
  llvm::Value* mask = nullptr;     // the same, per lane
};

// Memory of the kernel's own, in the entry block so that it is allocated once. At the beginning of a cache line.
llvm::Value* stack_slot(llvm::IRBuilder<>& b, llvm::Type* type);

// Of lanes [0, count).
llvm::Value* lane_mask(VectorIR& ir, llvm::Value* count);

// As the bits lie in memory, unconverted.
llvm::Value* load_elements(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& place);
void store_elements(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& place, llvm::Value* x);
// Both elements of the pairs at `place`.
void store_pairs(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& place, Vec first, Vec second);
Vec load_vector(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& place);
void store_vector(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& place, Vec x);
Vec load_scalar(VectorIR& scalar, ir::DType memory, llvm::Value* address);
void store_scalar(VectorIR& scalar, ir::DType memory, llvm::Value* address, Vec x);

}  // namespace lazuli::lowering::cpu
