#include "lowering/targets/gpu/nest_emitter.h"

#include <llvm/IR/Module.h>

#include "ir/error.h"
#include "lowering/targets/gpu/threads.h"

namespace lazuli::lowering {

void emit_gpu_kernel(llvm::Module& module, const LoopNest& nest, const std::string& symbol, const GpuVariant& variant) {
  gpu::NestEmitter(module, nest, symbol, variant).emit();
}

namespace gpu {
namespace {

llvm::Function* declare_kernel(llvm::Module& module, const std::string& symbol, size_t args, unsigned threads) {
  llvm::LLVMContext& c = module.getContext();
  llvm::IRBuilder<> b(c);
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  auto* f = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
  f->addFnAttr(llvm::Attribute::NoUnwind);
  f->setCallingConv(llvm::CallingConv::PTX_Kernel);
  // By value: the arguments themselves are the kernel's parameter.
  f->addParamAttr(0, llvm::Attribute::getWithByValType(c, llvm::ArrayType::get(b.getInt64Ty(), args)));
  f->addParamAttr(0, llvm::Attribute::getWithAlignment(c, llvm::Align(8)));
  auto annotate = [&](const char* name, unsigned value) {
    llvm::Metadata* parts[] = {llvm::ValueAsMetadata::get(f), llvm::MDString::get(c, name),
                               llvm::ConstantAsMetadata::get(b.getInt32(value))};
    module.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(c, parts));
  };
  annotate("kernel", 1);
  annotate("maxntidx", threads);
  llvm::BasicBlock::Create(c, "entry", f);
  return f;
}

void check_types(const LoopNest& nest) {
  auto check = [](ir::DType t) {
    if (ir::is_floating(t) || ir::is_integral(t) || t == ir::DType::Bool) return;
    throw InternalError("no GPU code for elements of type " + std::string(ir::name(t)));
  };
  for (const Access& a : nest.accesses) check(a.dtype);
  for (const Inst& x : nest.insts) check(x.dtype);
}

}  // namespace

NestEmitter::NestEmitter(llvm::Module& module, const LoopNest& nest, const std::string& symbol,
                         const GpuVariant& variant)
    : nest_(nest),
      variant_(variant),
      accumulates_(nest.accumulates()),
      layout_(nest, variant.chunked),
      varies_(find_varying(nest)),
      first_(variant.resident ? find_repeated(nest) : std::vector<uint16_t>{}),
      precision_(find_precision(nest, first_)),
      b_(module.getContext()),
      ir_(b_, 1, {.nvptx = true}),
      function_(declare_kernel(module, symbol,
                               variant.members > 1 ? GpuGroupLayout(nest, variant.members).total : layout_.total,
                               variant.threads)),
      int_(variant.wide ? b_.getInt64Ty() : b_.getInt32Ty()),
      fixed_(nest.rank),
      index_(nest.rank),
      active_(variant.passes, nullptr),
      tile_index_(variant.passes),
      results_(nest.insts.size()),
      accumulators_(nest.insts.size()) {
  check_types(nest);
  b_.SetInsertPoint(&function_->getEntryBlock());
}

void NestEmitter::emit() {
  read_arguments();
  switch (variant_.mapping) {
    case GpuMapping::Flat:
      flat();
      break;
    case GpuMapping::Tile:
      tiles();
      break;
    case GpuMapping::Rows:
      rows();
      break;
    case GpuMapping::Columns:
      columns();
      break;
  }
  b_.CreateRetVoid();
}

llvm::Value* NestEmitter::argument(size_t i, llvm::Type* type) {
  Value* address = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), arguments_, i);
  return b_.CreateAlignedLoad(type ? type : b_.getInt64Ty(), address, llvm::Align(8));
}

llvm::Value* NestEmitter::natural(Value* x) { return b_.CreateSExtOrTrunc(x, int_); }

llvm::Value* NestEmitter::ceil_divided(Value* x, int64_t by) {
  return by == 1 ? x : b_.CreateUDiv(b_.CreateAdd(x, natural(by - 1)), natural(by));
}

// The member that the block works for is the last one that begins at or before it: a binary search, the same for all of
// the block's threads.
void NestEmitter::find_member() {
  arguments_ = function_->getArg(0);
  block_ = block_index(b_, 0);
  if (variant_.members == 1) return;
  Value* parameter = arguments_;
  auto first_block = [&](Value* member) {
    Value* address = b_.CreateInBoundsGEP(b_.getInt64Ty(), parameter, member);
    return b_.CreateTrunc(b_.CreateAlignedLoad(b_.getInt64Ty(), address, llvm::Align(8)), b_.getInt32Ty());
  };
  Value* member = b_.getInt32(0);
  for (uint32_t half = variant_.members / 2; half; half /= 2) {
    Value* later = b_.CreateAdd(member, b_.getInt32(half));
    member = b_.CreateSelect(b_.CreateICmpUGE(block_, first_block(later)), later, member);
  }
  const GpuGroupLayout group(nest_, variant_.members);
  block_ = b_.CreateSub(block_, first_block(member));
  Value* offset = b_.CreateAdd(b_.CreateMul(member, b_.getInt32(static_cast<uint32_t>(group.stride))),
                               b_.getInt32(static_cast<uint32_t>(group.arguments)));
  arguments_ = b_.CreateInBoundsGEP(b_.getInt64Ty(), parameter, offset);
}

void NestEmitter::read_arguments() {
  find_member();
  thread_ = thread_index(b_);
  for (uint32_t d = 0; d < nest_.rank; ++d) size_.push_back(natural(argument(layout_.sizes + d)));
  Value* chunk = nullptr;
  if (variant_.chunked) {
    chunk = b_.CreateZExt(block_index(b_, 1), b_.getInt64Ty());
    Value* size = argument(layout_.chunk_size);
    Value* rest = b_.CreateSub(argument(layout_.chunk_total), b_.CreateMul(chunk, size));
    size_[variant_.chunk_dim] = natural(b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, size, rest));
  }
  for (size_t a = 0; a < nest_.accesses.size(); ++a) {
    Value* address = argument(layout_.pointers + a);
    if (chunk) address = b_.CreateAdd(address, b_.CreateMul(chunk, argument(layout_.moves + a)));
    address_.push_back(b_.CreateIntToPtr(address, b_.getPtrTy(kGlobal)));
    std::vector<Value*>& strides = stride_.emplace_back(nest_.rank);
    for (uint32_t d = 0; d < nest_.rank; ++d) {
      if (!moves_along(a, d)) continue;
      const bool dense = d == vector_dim() && nest_.accesses[a].stride == VectorStride::One;
      strides[d] = dense ? natural(1) : natural(argument(layout_.strides + a * nest_.rank + d));
    }
    index_stride_.push_back(nest_.accesses[a].indexed ? argument(layout_.index_strides + a) : nullptr);
  }
  for (size_t p = 0; p < nest_.params; ++p) param_.push_back(argument(layout_.params + p));
  vectors_ = ceil_divided(size_[vector_dim()], lanes());
}

bool NestEmitter::moves_along(size_t access, uint32_t dim) const {
  const Access& a = nest_.accesses[access];
  if ((a.row && dim >= kept()) || (a.still && dim < kept())) return false;
  return dim != vector_dim() || a.stride != VectorStride::Zero;
}

void NestEmitter::when(Value* condition, const std::function<void()>& body) {
  if (!condition) return body();
  auto* then = llvm::BasicBlock::Create(b_.getContext(), "then", function_);
  auto* done = llvm::BasicBlock::Create(b_.getContext(), "done", function_);
  b_.CreateCondBr(condition, then, done);
  b_.SetInsertPoint(then);
  body();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

llvm::Value* NestEmitter::both(Value* a, Value* b) {
  if (!a || !b) return a ? a : b;
  return b_.CreateAnd(a, b);
}

// The indices, outermost first, of element number `flat` of a space of these sizes.
Values NestEmitter::unravel(Value* flat, llvm::ArrayRef<Value*> radix) {
  Values index(radix.size());
  for (size_t k = radix.size(); k-- > 1;) {
    Value* quotient = b_.CreateUDiv(flat, radix[k]);
    index[k] = b_.CreateSub(flat, b_.CreateMul(quotient, radix[k]));
    flat = quotient;
  }
  if (!radix.empty()) index[0] = flat;
  return index;
}

// Addresses take in every dimension whose index is known by now and the same in all passes.
void NestEmitter::fix_addresses() {
  for (uint32_t d = 0; d < nest_.rank; ++d) fixed_[d] = index_[d].size() == 1;
  for (size_t a = 0; a < address_.size(); ++a) {
    Value* offset = nullptr;
    for (uint32_t d = 0; d < nest_.rank; ++d) {
      if (!fixed_[d] || !stride_[a][d]) continue;
      Value* step = b_.CreateNSWMul(index_[d][0], stride_[a][d]);
      offset = offset ? b_.CreateNSWAdd(offset, step) : step;
    }
    llvm::Type* element = b_.getIntNTy(static_cast<unsigned>(ir::item_size(nest_.accesses[a].dtype)) * 8);
    if (offset) address_[a] = b_.CreateGEP(element, address_[a], offset);
  }
}

}  // namespace gpu
}  // namespace lazuli::lowering
