#include "lowering/targets/vector_ir.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>

#include <numeric>

#include "ir/error.h"

namespace lazuli::lowering {
using llvm::Intrinsic::ID;
namespace intrinsic = llvm::Intrinsic;

llvm::Type* VectorIR::element(ir::DType type) const {
  switch (type) {
    case ir::DType::Bool:
      return b.getInt1Ty();
    case ir::DType::U8:
    case ir::DType::I8:
      return b.getInt8Ty();
    case ir::DType::I16:
      return b.getInt16Ty();
    case ir::DType::I32:
      return b.getInt32Ty();
    case ir::DType::I64:
      return b.getInt64Ty();
    case ir::DType::F32:
      return b.getFloatTy();
    case ir::DType::F64:
      return b.getDoubleTy();
    default:
      throw InternalError("no registers of this element type");
  }
}

llvm::Value* VectorIR::iota() const {
  if (lanes == 1) return b.getInt64(0);
  llvm::SmallVector<llvm::Constant*, 64> lane;
  for (unsigned i = 0; i < lanes; ++i) lane.push_back(b.getInt64(i));
  return llvm::ConstantVector::get(lane);
}

Vec number(Vec like, double value) {
  llvm::Type* t = like.v->getType();
  if (!like.floating()) return integer(like, static_cast<int64_t>(value));
  return like.with(llvm::ConstantFP::get(t, value));
}
Vec integer(Vec like, int64_t value) {
  return like.with(llvm::ConstantInt::get(like.v->getType(), static_cast<uint64_t>(value), true));
}
Vec pattern(Vec like, uint64_t bits) {
  llvm::APFloat f(like.element()->getFltSemantics(), llvm::APInt(like.bits(), bits));
  return like.with(llvm::ConstantFP::get(like.v->getType(), f));
}

Vec operator+(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFAdd(a.v, b.v) : a.b().CreateAdd(a.v, b.v)); }
Vec operator-(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFSub(a.v, b.v) : a.b().CreateSub(a.v, b.v)); }
Vec operator*(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFMul(a.v, b.v) : a.b().CreateMul(a.v, b.v)); }
Vec operator/(Vec a, Vec b) { return a.with(a.b().CreateFDiv(a.v, b.v)); }
Vec operator-(Vec a) { return a.with(a.floating() ? a.b().CreateFNeg(a.v) : a.b().CreateNeg(a.v)); }
Vec operator&(Vec a, Vec b) { return a.with(a.b().CreateAnd(a.v, b.v)); }
Vec operator|(Vec a, Vec b) { return a.with(a.b().CreateOr(a.v, b.v)); }
Vec operator^(Vec a, Vec b) { return a.with(a.b().CreateXor(a.v, b.v)); }
Vec operator~(Vec a) { return a.with(a.b().CreateNot(a.v)); }

Vec shl(Vec a, unsigned n) { return a.with(a.b().CreateShl(a.v, integer(a, n).v)); }
Vec lshr(Vec a, unsigned n) { return a.with(a.b().CreateLShr(a.v, integer(a, n).v)); }
Vec ashr(Vec a, unsigned n) { return a.with(a.b().CreateAShr(a.v, integer(a, n).v)); }

Vec eq(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFCmpOEQ(a.v, b.v) : a.b().CreateICmpEQ(a.v, b.v)); }
Vec ne(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFCmpUNE(a.v, b.v) : a.b().CreateICmpNE(a.v, b.v)); }
Vec lt(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFCmpOLT(a.v, b.v) : a.b().CreateICmpSLT(a.v, b.v)); }
Vec le(Vec a, Vec b) { return a.with(a.floating() ? a.b().CreateFCmpOLE(a.v, b.v) : a.b().CreateICmpSLE(a.v, b.v)); }
Vec ult(Vec a, Vec b) { return a.with(a.b().CreateICmpULT(a.v, b.v)); }
Vec is_nan(Vec a) { return a.with(a.b().CreateFCmpUNO(a.v, a.v)); }
Vec select(Vec mask, Vec a, Vec b) { return a.with(a.b().CreateSelect(mask.v, a.v, b.v)); }
llvm::Value* any(Vec mask) { return mask.ir->lanes == 1 ? mask.v : mask.b().CreateOrReduce(mask.v); }

static Vec unary(ID id, Vec a) { return a.with(a.b().CreateUnaryIntrinsic(id, a.v)); }
Vec fma(Vec a, Vec b, Vec c) {
  return a.with(a.b().CreateIntrinsic(intrinsic::fma, {a.v->getType()}, {a.v, b.v, c.v}));
}
Vec abs(Vec a) { return unary(intrinsic::fabs, a); }
Vec copysign(Vec magnitude, Vec sign) {
  if (magnitude.ir->machine.nvptx) {
    // One logical instruction; as an intrinsic it becomes six.
    Vec m = bits_of(magnitude), s = bits_of(sign);
    const int64_t sign_bit = int64_t{-1} << (m.bits() - 1);
    return from_bits((m & integer(m, ~sign_bit)) | (s & integer(s, sign_bit)));
  }
  return magnitude.with(magnitude.b().CreateBinaryIntrinsic(intrinsic::copysign, magnitude.v, sign.v));
}
Vec sqrt(Vec a) { return unary(intrinsic::sqrt, a); }
Vec floor(Vec a) { return unary(intrinsic::floor, a); }
Vec ceil(Vec a) { return unary(intrinsic::ceil, a); }
Vec trunc(Vec a) { return unary(intrinsic::trunc, a); }
Vec round_even(Vec a) { return unary(intrinsic::roundeven, a); }
Vec min_or_second(Vec a, Vec b) { return select(lt(a, b), a, b); }
Vec max_or_second(Vec a, Vec b) { return select(gt(a, b), a, b); }
Vec clamp(Vec x, double low, double high) {
  if (x.ir->machine.nvptx && !x.f64()) return min_instruction(max_instruction(x, number(x, low)), number(x, high));
  return min_or_second(number(x, high), max_or_second(number(x, low), x));
}

Vec bits_of(Vec a) { return a.with(a.b().CreateBitCast(a.v, a.ir->of(a.b().getIntNTy(a.bits())))); }
Vec from_bits(Vec a) {
  return a.with(a.b().CreateBitCast(a.v, a.ir->of(a.bits() == 64 ? a.b().getDoubleTy() : a.b().getFloatTy())));
}
Vec resize(Vec a, unsigned bits, bool is_signed) {
  return a.with(a.b().CreateIntCast(a.v, a.ir->of(a.b().getIntNTy(bits)), is_signed));
}
Vec to_integer(Vec a, unsigned bits) { return a.with(a.b().CreateFPToSI(a.v, a.ir->of(a.b().getIntNTy(bits)))); }
Vec to_floating(Vec a, llvm::Type* element, bool is_signed) {
  llvm::Type* t = a.ir->of(element);
  return a.with(is_signed ? a.b().CreateSIToFP(a.v, t) : a.b().CreateUIToFP(a.v, t));
}
static Vec instruction(ID id, Vec a) { return a.with(a.b().CreateIntrinsic(id, {}, {a.v})); }
Vec exp2_instruction(Vec a) { return instruction(intrinsic::nvvm_ex2_approx_ftz_f, a); }
Vec gradual_exp2_instruction(Vec a) { return instruction(intrinsic::nvvm_ex2_approx_f, a); }
Vec reciprocal_instruction(Vec a) { return instruction(intrinsic::nvvm_rcp_approx_ftz_f, a); }
Vec sqrt_instruction(Vec a) { return instruction(intrinsic::nvvm_sqrt_approx_f, a); }
Vec rsqrt_instruction(Vec a) { return instruction(intrinsic::nvvm_rsqrt_approx_f, a); }
Vec log2_instruction(Vec a) { return instruction(intrinsic::nvvm_lg2_approx_f, a); }
static Vec pair(ID id, Vec low, Vec high) {
  return low.with(low.b().CreateBitCast(low.b().CreateIntrinsic(id, {}, {high.v, low.v}), low.b().getInt32Ty()));
}
Vec bf16_pair_instruction(Vec low, Vec high) { return pair(intrinsic::nvvm_ff2bf16x2_rn, low, high); }
Vec f16_pair_instruction(Vec low, Vec high) { return pair(intrinsic::nvvm_ff2f16x2_rn, low, high); }
Vec min_instruction(Vec a, Vec b) { return a.with(a.b().CreateBinaryIntrinsic(intrinsic::minimum, a.v, b.v)); }
Vec max_instruction(Vec a, Vec b) { return a.with(a.b().CreateBinaryIntrinsic(intrinsic::maximum, a.v, b.v)); }
Vec to_f64(Vec a) { return a.with(a.b().CreateFPExt(a.v, a.ir->of(a.b().getDoubleTy()))); }
Vec to_f32(Vec a) { return a.with(a.b().CreateFPTrunc(a.v, a.ir->of(a.b().getFloatTy()))); }

Vec horner(Vec x, std::initializer_list<double> coefficients) {
  auto c = coefficients.begin();
  Vec y = number(x, *c);
  while (++c != coefficients.end()) y = fma(y, x, *c);
  return y;
}

namespace {

llvm::Constant* constants(llvm::LLVMContext& context, bool f64, llvm::ArrayRef<double> entries) {
  if (f64) return llvm::ConstantDataVector::get(context, entries);
  llvm::SmallVector<float, 16> narrow(entries.begin(), entries.end());
  return llvm::ConstantDataVector::get(context, narrow);
}

// Of as many lanes as a register has.
llvm::Value* look_up_in_registers(llvm::IRBuilder<>& b, llvm::ArrayRef<double> entries, llvm::Value* index,
                                  unsigned lanes) {
  const bool f64 = index->getType()->getScalarSizeInBits() == 64;
  auto part = [&](unsigned from) { return constants(b.getContext(), f64, entries.slice(from, lanes)); };
  if (lanes == 16) return b.CreateIntrinsic(intrinsic::x86_avx512_permvar_sf_512, {}, {part(0), index});
  if (f64) return b.CreateIntrinsic(intrinsic::x86_avx512_vpermi2var_pd_512, {}, {part(0), index, part(8)});
  auto half = [&](unsigned from) { return b.CreateIntrinsic(intrinsic::x86_avx2_permps, {}, {part(from), index}); };
  llvm::Value* upper = b.CreateICmpSLT(b.CreateShl(index, 28), llvm::Constant::getNullValue(index->getType()));
  return b.CreateSelect(upper, half(8), half(0));
}

llvm::Value* look_up_in_memory(llvm::IRBuilder<>& b, llvm::ArrayRef<double> entries, Vec index) {
  llvm::Module& module = *b.GetInsertBlock()->getModule();
  llvm::Constant* data = constants(b.getContext(), index.bits() == 64, entries);
  // Unnamed: equal ones are merged when code is made.
  auto* table = new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
  table->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  llvm::Type* element = data->getType()->getScalarType();
  index = index & integer(index, 15);
  auto entry = [&](llvm::Value* i) { return b.CreateLoad(element, b.CreateGEP(element, table, i)); };
  if (index.ir->lanes == 1) return entry(index.v);
  llvm::Value* all = llvm::PoisonValue::get(index.ir->of(element));
  for (uint64_t lane = 0; lane < index.ir->lanes; ++lane)
    all = b.CreateInsertElement(all, entry(b.CreateExtractElement(index.v, lane)), lane);
  return all;
}

}  // namespace

Vec look_up(const std::array<double, 16>& entries, Vec index) {
  llvm::IRBuilder<>& b = index.b();
  const unsigned lanes = index.ir->lanes, held = index.ir->machine.x86_bits / index.bits();
  if (held < 8 || lanes % held) return index.with(look_up_in_memory(b, entries, index));
  auto lanes_from = [&](unsigned from, unsigned count) {
    llvm::SmallVector<int, 32> lane(count);
    std::iota(lane.begin(), lane.end(), from);
    return lane;
  };
  llvm::SmallVector<llvm::Value*, 4> parts;
  for (unsigned from = 0; from < lanes; from += held)
    parts.push_back(look_up_in_registers(b, entries, b.CreateShuffleVector(index.v, lanes_from(from, held)), held));
  for (unsigned count = held; parts.size() > 1; count *= 2)
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i] = b.CreateShuffleVector(parts[i], parts[i + 1], lanes_from(0, 2 * count));
      parts.erase(&parts[i + 1]);
    }
  return index.with(parts[0]);
}

std::pair<Vec, Vec> when_any(Vec mask, std::pair<Vec, Vec> usual, const std::function<std::pair<Vec, Vec>()>& rare) {
  llvm::IRBuilder<>& b = mask.b();
  llvm::BasicBlock* from = b.GetInsertBlock();
  auto* rare_block = llvm::BasicBlock::Create(b.getContext(), "rare", from->getParent());
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join", from->getParent());
  b.CreateCondBr(any(mask), rare_block, join);
  b.SetInsertPoint(rare_block);
  auto [first, second] = rare();
  first = select(mask, first, usual.first);
  second = select(mask, second, usual.second);
  llvm::BasicBlock* rare_end = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  auto merge = [&](Vec ordinary, Vec replaced) {
    llvm::PHINode* phi = b.CreatePHI(ordinary.v->getType(), 2);
    phi->addIncoming(ordinary.v, from);
    phi->addIncoming(replaced.v, rare_end);
    return ordinary.with(phi);
  };
  first = merge(usual.first, first);
  return {first, merge(usual.second, second)};
}

Vec when_any(Vec mask, Vec usual, const std::function<Vec()>& rare) {
  return when_any(mask, std::pair{usual, mask}, [&] { return std::pair{rare(), mask}; }).first;
}

}  // namespace lazuli::lowering
