#include "lowering/targets/loop.h"

namespace lazuli::lowering {

void emit_loop(llvm::IRBuilder<>& b, const char* name, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
               llvm::ArrayRef<llvm::Value**> carried, const std::function<void(llvm::Value*)>& body) {
  llvm::Function* f = b.GetInsertBlock()->getParent();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), name, f);
  auto* done = llvm::BasicBlock::Create(b.getContext(), llvm::Twine(name) + ".end", f);
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::SmallVector<llvm::Value*, 8> initial;
  for (llvm::Value** c : carried) initial.push_back(*c);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, done);

  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(begin->getType(), 2, "i");
  llvm::SmallVector<llvm::PHINode*, 8> phis;
  for (llvm::Value** c : carried) {
    phis.push_back(b.CreatePHI((*c)->getType(), 2));
    *c = phis.back();
  }
  body(i);
  llvm::Value* next = b.CreateNSWAdd(i, step);
  llvm::BasicBlock* latch = b.GetInsertBlock();
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, done);
  i->addIncoming(begin, before);
  i->addIncoming(next, latch);

  b.SetInsertPoint(done);
  for (size_t k = 0; k < carried.size(); ++k) {
    phis[k]->addIncoming(initial[k], before);
    phis[k]->addIncoming(*carried[k], latch);
    llvm::PHINode* last = b.CreatePHI(initial[k]->getType(), 2);
    last->addIncoming(initial[k], before);
    last->addIncoming(*carried[k], latch);
    *carried[k] = last;
  }
}

llvm::Value* choose(llvm::IRBuilder<>& b, llvm::Value* condition, const std::function<llvm::Value*()>& then,
                    const std::function<llvm::Value*()>& otherwise) {
  llvm::Function* f = b.GetInsertBlock()->getParent();
  auto* then_block = llvm::BasicBlock::Create(b.getContext(), "then", f);
  auto* other_block = llvm::BasicBlock::Create(b.getContext(), "else", f);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join", f);
  b.CreateCondBr(condition, then_block, other_block);
  const auto branch = [&](llvm::BasicBlock* block, const std::function<llvm::Value*()>& body) {
    b.SetInsertPoint(block);
    llvm::Value* x = body();
    llvm::BasicBlock* end = b.GetInsertBlock();
    b.CreateBr(join);
    return std::pair{x, end};
  };
  const auto [x, x_end] = branch(then_block, then);
  const auto [y, y_end] = branch(other_block, otherwise);
  b.SetInsertPoint(join);
  if (!x) return nullptr;
  llvm::PHINode* phi = b.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, x_end);
  phi->addIncoming(y, y_end);
  return phi;
}

}  // namespace lazuli::lowering
