// Element types in memory against compute types: Bool is a byte, and the reduced floating types travel as 16 bits.
#pragma once
#include "lowering/targets/vector_ir.h"

namespace lazuli::lowering {

llvm::Type* memory_element(llvm::IRBuilder<>& b, ir::DType memory);
Vec widen(Vec x, ir::DType memory);     // as loaded -> compute type
Vec narrow(Vec x, ir::DType memory);    // compute type -> as stored; rounds to nearest even
Vec round_to(Vec x, ir::DType memory);  // what storing and loading again gives, for the reduced floating types
Vec round_bf16_result(Vec x);           // see scalar.def: cheaper

}  // namespace lazuli::lowering
