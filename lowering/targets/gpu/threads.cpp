#include "lowering/targets/gpu/threads.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

namespace lazuli::lowering::gpu {
using llvm::Value;
namespace intrinsic = llvm::Intrinsic;

Value* thread_index(llvm::IRBuilder<>& b) { return b.CreateIntrinsic(intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {}); }

Value* block_index(llvm::IRBuilder<>& b, unsigned dim) {
  return b.CreateIntrinsic(dim ? intrinsic::nvvm_read_ptx_sreg_ctaid_y : intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {});
}

void block_barrier(llvm::IRBuilder<>& b) { b.CreateIntrinsic(intrinsic::nvvm_barrier0, {}, {}); }
void warp_barrier(llvm::IRBuilder<>& b) { b.CreateIntrinsic(intrinsic::nvvm_bar_warp_sync, {}, {b.getInt32(-1)}); }

static Value* exchange_word(llvm::IRBuilder<>& b, Value* x, unsigned distance) {
  return b.CreateIntrinsic(intrinsic::nvvm_shfl_sync_bfly_i32, {},
                           {b.getInt32(-1), x, b.getInt32(distance), b.getInt32(31)});
}

Value* exchange(llvm::IRBuilder<>& b, Value* x, unsigned distance) {
  llvm::Type* type = x->getType();
  const unsigned bits = type->getScalarSizeInBits();
  Value* raw = b.CreateBitCast(x, b.getIntNTy(bits));
  if (bits <= 32) {
    Value* y = exchange_word(b, b.CreateZExt(raw, b.getInt32Ty()), distance);
    return b.CreateBitCast(b.CreateTrunc(y, b.getIntNTy(bits)), type);
  }
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 2);
  Value* pair = b.CreateBitCast(raw, words);
  Value* y = llvm::PoisonValue::get(words);
  for (uint64_t k = 0; k < 2; ++k)
    y = b.CreateInsertElement(y, exchange_word(b, b.CreateExtractElement(pair, k), distance), k);
  return b.CreateBitCast(y, type);
}

Value* shared_memory(llvm::IRBuilder<>& b, uint64_t bytes) {
  constexpr unsigned kShared = 3;
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  auto* type = llvm::ArrayType::get(b.getInt8Ty(), bytes);
  auto* memory =
      new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
                               "shared", nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  memory->setAlignment(llvm::Align(16));
  return memory;
}

}  // namespace lazuli::lowering::gpu
