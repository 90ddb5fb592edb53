#include "lowering/targets/cpu/nest_emitter.h"

#include <llvm/IR/Module.h>

#include "lowering/targets/loop.h"

namespace lazuli::lowering {

void emit_cpu_kernel(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const CpuTarget& target) {
  cpu::NestEmitter(module, nest, symbol, target).emit();
}

namespace cpu {
namespace {

llvm::Function* declare_kernel(llvm::Module& module, const std::string& symbol) {
  llvm::LLVMContext& c = module.getContext();
  llvm::Type* i64 = llvm::Type::getInt64Ty(c);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {llvm::PointerType::get(c, 0), i64, i64}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  llvm::BasicBlock::Create(c, "entry", f);
  return f;
}

}  // namespace

NestEmitter::NestEmitter(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const CpuTarget& target)
    : nest_(nest),
      target_(target),
      layout_(nest),
      plan_(plan_nest(nest, target)),
      b_(module.getContext()),
      scalar_(b_, 1),
      vector_(b_, plan_.lanes, {.x86_bits = target.vector_bits}),
      function_(declare_kernel(module, symbol)),
      index_(nest.rank),
      results_(nest.insts.size()),
      kept_(nest.insts.size()),
      accumulators_(nest.insts.size()) {
  const std::string bits = std::to_string(target.vector_bits);
  function_->addFnAttr("prefer-vector-width", bits);
  function_->addFnAttr("min-legal-vector-width", bits);
}

void NestEmitter::emit() {
  llvm::BasicBlock* entry = &function_->getEntryBlock();
  auto* work = llvm::BasicBlock::Create(b_.getContext(), "work", function_);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "return", function_);
  Value *begin = function_->getArg(1), *end = function_->getArg(2);
  b_.SetInsertPoint(done);
  b_.CreateRetVoid();
  // An empty range leaves at once: sizes may be zero then, and nothing below may divide by them.
  b_.SetInsertPoint(entry);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), work, done);
  b_.SetInsertPoint(work);
  read_arguments();
  if (plan_.row_vectors) held_row_ = whole_row();
  run_level(Level::Kernel);
  if (nest_.accumulates())
    for (uint32_t d = 0; d < kept(); ++d) begin = b_.CreateMul(begin, size_[d]), end = b_.CreateMul(end, size_[d]);
  unit_loop(begin, end);
  b_.CreateBr(done);
}

void NestEmitter::read_arguments() {
  auto argument = [&](size_t i, llvm::Type* type = nullptr) {
    Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), function_->getArg(0), i);
    return b_.CreateLoad(type ? type : b_.getInt64Ty(), address);
  };
  if (column()) block_ = argument(0);
  for (uint32_t d = 0; d < nest_.rank; ++d) size_.push_back(argument(layout_.sizes + d));
  for (size_t a = 0; a < nest_.accesses.size(); ++a) {
    const Access& access = nest_.accesses[a];
    Value* bytes = b_.getInt64(static_cast<uint64_t>(ir::item_size(access.dtype)));
    address_.push_back(argument(layout_.pointers + a, b_.getPtrTy()));
    std::vector<Value*>& strides = stride_.emplace_back(nest_.rank);
    for (uint32_t d = 0; d < nest_.rank; ++d)
      if (moves_along(a, d)) strides[d] = b_.CreateMul(argument(layout_.strides + a * nest_.rank + d), bytes);
    index_stride_.push_back(access.indexed ? b_.CreateMul(argument(layout_.index_strides + a), bytes) : nullptr);
  }
  for (size_t p = 0; p < nest_.params; ++p) param_.push_back(argument(layout_.params + p));
  if (nest_.checks) status_ = argument(layout_.status, b_.getPtrTy());
}

bool NestEmitter::moves_along(size_t access, uint32_t dim) const {
  const Access& a = nest_.accesses[access];
  if (a.row && dim >= kept()) return false;
  return dim != nest_.vector_dim() || a.stride == VectorStride::Any || a.stride == VectorStride::Backward;
}

void NestEmitter::unit_loop(Value* begin, Value* end) {
  llvm::SmallVector<Value*, 6> indices = first_unit(begin);
  llvm::SmallVector<Value**, 6> carried;
  for (Value*& i : indices) carried.push_back(&i);
  emit_loop(b_, "unit", begin, end, b_.getInt64(1), carried, [&](Value* unit) {
    first_point_ = b_.CreateICmpEQ(unit, begin);
    const std::vector<Value*> before = address_;
    // Kept dimensions other than the vector dimension of a Column nest, which its blocks walk.
    const uint32_t dims = column() ? nest_.vector_dim() : kept();
    for (uint32_t d = 0; d < dims; ++d) {
      if (d == nest_.tile) continue;  // its blocks are walked below, too
      index_[d] = indices[d];
      for (size_t a = 0; a < address_.size(); ++a)
        if (stride_[a][d]) address_[a] = b_.CreatePtrAdd(address_[a], b_.CreateMul(indices[d], stride_[a][d]));
    }
    run_level(Level::Unit);
    auto block = [&](Value* number, uint32_t dim) {
      Value* first = b_.CreateMul(number, block_);
      Value* last = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(first, block_), size_[dim]);
      return std::pair(first, last);
    };
    if (column()) {
      auto [first, last] = block(indices.back(), nest_.vector_dim());
      if (nest_.tiled()) {
        auto [row, rows] = block(indices[nest_.tile], nest_.tile);
        squares(row, rows, first, last);
      } else if (plan_.row_by_row) {
        row_by_row(first, last);
      } else {
        vector_loops(first, last, plan_.unroll[0], kNoStage, {}, [&](const Pass& pass) { all_stages(pass); });
      }
    } else {
      all_stages({1, {}});
    }
    next_unit(indices);
    address_ = before;
  });
}

// The indices that unit number `begin` starts at: one per outer dimension, then the block of a Column nest.
llvm::SmallVector<llvm::Value*, 6> NestEmitter::first_unit(Value* begin) {
  const uint32_t dims = column() ? nest_.vector_dim() : kept();
  llvm::SmallVector<Value*, 6> radix(size_.begin(), size_.begin() + dims);
  auto blocks = [&](uint32_t dim) {
    return b_.CreateUDiv(b_.CreateAdd(size_[dim], b_.CreateSub(block_, b_.getInt64(1))), block_);
  };
  if (nest_.tiled()) radix[nest_.tile] = blocks(nest_.tile);
  if (column()) radix.push_back(blocks(nest_.vector_dim()));
  llvm::SmallVector<Value*, 6> indices(radix.size());
  Value* rest = begin;
  for (size_t k = radix.size(); k-- > 0;) {
    indices[k] = k ? b_.CreateURem(rest, radix[k]) : rest;
    if (k) rest = b_.CreateUDiv(rest, radix[k]);
  }
  radix_ = radix;
  return indices;
}

// Counts up by one unit, with carries.
void NestEmitter::next_unit(llvm::SmallVector<Value*, 6>& indices) {
  Value* carry = b_.getTrue();
  for (size_t k = indices.size(); k-- > 0;) {
    Value* next = b_.CreateAdd(indices[k], b_.CreateZExt(carry, b_.getInt64Ty()));
    if (k == 0) {
      indices[k] = next;
      continue;
    }
    carry = b_.CreateICmpEQ(next, radix_[k]);
    indices[k] = b_.CreateSelect(carry, b_.getInt64(0), next);
  }
}

}  // namespace cpu
}  // namespace lazuli::lowering
