// Calls of the C library's math, lane by lane, in a function of its own so that one kernel has it once; and what does
// its work where there is none.
#include <llvm/IR/Module.h>

#include <string>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

llvm::Function* lane_function(Vec x, const std::string& name, size_t arity) {
  llvm::Module& module = *x.b().GetInsertBlock()->getModule();
  llvm::SmallVector<llvm::Type*, 2> scalars(arity, x.element()), vectors(arity, x.v->getType());
  auto scalar = module.getOrInsertFunction(name, llvm::FunctionType::get(x.element(), scalars, false));
  if (x.ir->lanes == 1) return llvm::cast<llvm::Function>(scalar.getCallee());

  std::string symbol = name + ".x" + std::to_string(x.ir->lanes);
  if (auto* f = module.getFunction(symbol)) return f;
  auto* f = llvm::Function::Create(llvm::FunctionType::get(x.v->getType(), vectors, false),
                                   llvm::Function::InternalLinkage, symbol, module);
  llvm::Function* caller = x.b().GetInsertBlock()->getParent();
  f->setAttributes(f->getAttributes().addFnAttributes(
      f->getContext(), llvm::AttrBuilder(f->getContext(), caller->getAttributes().getFnAttrs())));
  f->addFnAttr(llvm::Attribute::NoInline);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(f->getContext(), "entry", f));
  llvm::Value* result = llvm::PoisonValue::get(x.v->getType());
  for (unsigned lane = 0; lane < x.ir->lanes; ++lane) {
    llvm::SmallVector<llvm::Value*, 2> args;
    for (llvm::Argument& a : f->args()) args.push_back(b.CreateExtractElement(&a, lane));
    result = b.CreateInsertElement(result, b.CreateCall(scalar, args), lane);
  }
  b.CreateRet(result);
  return f;
}

}  // namespace

Vec per_lane(const char* name, std::initializer_list<Vec> args) {
  Vec x = *args.begin();
  if (!x.ir->machine.c_library) return f64::call(name, {args.begin(), args.size()});
  std::string symbol = std::string(name) + (x.f64() ? "" : "f");
  llvm::SmallVector<llvm::Value*, 2> values;
  for (Vec a : args) values.push_back(a.v);
  return x.with(x.b().CreateCall(lane_function(x, symbol, args.size()), values));
}

}  // namespace lazuli::lowering::math
