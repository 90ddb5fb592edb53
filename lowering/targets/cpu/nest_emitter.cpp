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

// Where the loop over units is: an index per outer dimension, then the block of a Column nest, and the addresses that
// follow from them. Units may be short, so that addresses step where the last outer dimension does, and are computed
// anew only where another one does.
class NestEmitter::Units {
 public:
  Units(NestEmitter& e, Value* begin)
      : e_(e), b_(e.b_), dims_(e.column() ? e.nest_.vector_dim() : e.kept()), base_(e.address_) {
    radix_.assign(e.size_.begin(), e.size_.begin() + dims_);
    if (e.nest_.tiled()) radix_[e.nest_.tile] = blocks(e.nest_.tile);
    if (e.column()) radix_.push_back(blocks(e.nest_.vector_dim()));
    indices_.resize(radix_.size());
    Value* rest = begin;
    for (size_t k = radix_.size(); k-- > 0;) {
      indices_[k] = k ? b_.CreateURem(rest, radix_[k]) : rest;
      if (k) rest = b_.CreateUDiv(rest, radix_[k]);
    }
    set_addresses();
  }

  llvm::SmallVector<Value**, 12> carried() {
    llvm::SmallVector<Value**, 12> all;
    for (Value*& i : indices_) all.push_back(&i);
    for (Value** a : moving_addresses(0, dims_)) all.push_back(a);
    return all;
  }
  // Elements [first, last) of the dimension, of which this unit has a block.
  std::pair<Value*, Value*> block(uint32_t dim) const {
    Value* first = b_.CreateMul(indices_[dim], e_.block_);
    return {first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(first, e_.block_), e_.size_[dim])};
  }
  void enter() {
    for (uint32_t d = 0; d < dims_; ++d)
      if (walks(d)) e_.index_[d] = indices_[d];
  }
  void next() {
    Value* moves = b_.getTrue();
    if (e_.column()) moves = count_up(dims_, moves);
    if (dims_ == 0) return;
    const uint32_t last = dims_ - 1;
    for (size_t a = 0; a < base_.size(); ++a)
      if (Value* stride = e_.stride_[a][last]; stride && walks(last))
        e_.address_[a] = b_.CreatePtrAdd(e_.address_[a], b_.CreateSelect(moves, stride, b_.getInt64(0)));
    Value* carry = count_up(last, moves);
    if (last > 0) carry_over(carry);
  }
  void leave() { e_.address_ = base_; }

 private:
  // Kept dimensions other than the vector dimension of a Column nest and the tile, which blocks walk further in.
  bool walks(uint32_t dim) const { return dim != e_.nest_.tile; }

  Value* blocks(uint32_t dim) const {
    return b_.CreateUDiv(b_.CreateAdd(e_.size_[dim], b_.CreateSub(e_.block_, b_.getInt64(1))), e_.block_);
  }
  // Loops carry them: they stay where they are.
  void set_addresses() {
    for (size_t a = 0; a < base_.size(); ++a) {
      Value* address = base_[a];
      for (uint32_t d = 0; d < dims_; ++d)
        if (Value* stride = e_.stride_[a][d]; stride && walks(d))
          address = b_.CreatePtrAdd(address, b_.CreateMul(indices_[d], stride));
      e_.address_[a] = address;
    }
  }
  llvm::SmallVector<Value**, 8> moving_addresses(uint32_t from, uint32_t to) {
    llvm::SmallVector<Value**, 8> all;
    for (size_t a = 0; a < base_.size(); ++a)
      for (uint32_t d = from; d < to; ++d)
        if (e_.stride_[a][d] && walks(d)) {
          all.push_back(&e_.address_[a]);
          break;
        }
    return all;
  }

  // Adds the carry to index k. The result is the carry to the one before it, which the first one never gives.
  Value* count_up(size_t k, Value* carry) {
    Value* next = b_.CreateAdd(indices_[k], b_.CreateZExt(carry, b_.getInt64Ty()));
    if (k == 0) {
      indices_[k] = next;
      return b_.getFalse();
    }
    carry = b_.CreateICmpEQ(next, radix_[k]);
    indices_[k] = b_.CreateSelect(carry, b_.getInt64(0), next);
    return carry;
  }

  // Where the last outer dimension begins anew.
  void carry_over(Value* carry) {
    const uint32_t last = dims_ - 1;
    llvm::SmallVector<Value**, 12> changed = moving_addresses(0, dims_);
    for (uint32_t d = 0; d < last; ++d) changed.push_back(&indices_[d]);
    llvm::SmallVector<Value*, 12> as_it_was;
    for (Value** v : changed) as_it_was.push_back(*v);
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* anew = llvm::BasicBlock::Create(b_.getContext(), "anew", before->getParent());
    auto* join = llvm::BasicBlock::Create(b_.getContext(), "join", before->getParent());
    b_.CreateCondBr(carry, anew, join);
    b_.SetInsertPoint(anew);
    for (uint32_t d = last; d-- > 0;) carry = count_up(d, d + 1 == last ? b_.getTrue() : carry);
    set_addresses();
    b_.CreateBr(join);
    b_.SetInsertPoint(join);
    for (size_t i = 0; i < changed.size(); ++i) {
      llvm::PHINode* phi = b_.CreatePHI(as_it_was[i]->getType(), 2);
      phi->addIncoming(as_it_was[i], before);
      phi->addIncoming(*changed[i], anew);
      *changed[i] = phi;
    }
  }

  NestEmitter& e_;
  llvm::IRBuilder<>& b_;
  const uint32_t dims_;
  const std::vector<Value*> base_;
  llvm::SmallVector<Value*, 6> radix_;  // of the unit counter, outermost first
  llvm::SmallVector<Value*, 6> indices_;
};

void NestEmitter::unit_loop(Value* begin, Value* end) {
  Units units(*this, begin);
  emit_loop(b_, "unit", begin, end, b_.getInt64(1), units.carried(), [&](Value* unit) {
    first_point_ = b_.CreateICmpEQ(unit, begin);
    const std::vector<Value*> here = address_;
    units.enter();
    run_level(Level::Unit);
    if (column()) {
      auto [first, last] = units.block(nest_.vector_dim());
      if (nest_.tiled()) {
        auto [row, rows] = units.block(nest_.tile);
        squares(row, rows, first, last);
      } else if (plan_.row_by_row) {
        row_by_row(first, last);
      } else {
        vector_loops(first, last, plan_.unroll[0], kNoStage, {}, [&](const Pass& pass) { all_stages(pass); });
      }
    } else {
      all_stages({1, {}});
    }
    address_ = here;
    units.next();
  });
  units.leave();
}

}  // namespace cpu
}  // namespace lazuli::lowering
