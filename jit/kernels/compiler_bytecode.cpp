// LLVM's IR of a kernel becomes bytecode: each value gets a place in the frame, and each instruction an operation.
// There is no code for what kernels rarely do; they are compiled.
#include "jit/kernels/compiler_bytecode.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InstrTypes.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace lazuli::jit {
namespace {

using bytecode::Code;
using bytecode::Element;
using bytecode::Instruction;
using bytecode::Operation;

struct NoBytecode {};  // is thrown

struct Kind {
  Element element;
  uint32_t lanes;
  uint32_t bytes() const { return lanes * static_cast<uint32_t>(size_of(element)); }
};

Element element_of(const llvm::Type* type) {
  if (type->isFloatTy()) return Element::F32;
  if (type->isDoubleTy()) return Element::F64;
  if (type->isPointerTy()) return Element::I64;
  if (type->isIntegerTy()) switch (type->getIntegerBitWidth()) {
      case 1:
        return Element::Bool;
      case 8:
        return Element::I8;
      case 16:
        return Element::I16;
      case 32:
        return Element::I32;
      case 64:
        return Element::I64;
      default:
        break;
    }
  throw NoBytecode();
}

Kind kind_of(const llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? Kind{element_of(vector->getElementType()), vector->getNumElements()} : Kind{element_of(type), 1};
}

class BytecodeTranslator {
 public:
  explicit BytecodeTranslator(const llvm::Function& function)
      : function_(function), layout_(function.getParent()->getDataLayout()) {}

  std::unique_ptr<const bytecode::Program> translate() {
    program_ = std::make_unique<bytecode::Program>();
    place_constants();
    size_ = std::max(size_, program_->constants.size());
    program_->arguments = take(8 * static_cast<uint32_t>(function_.arg_size()), 8);
    for (const llvm::Argument& a : function_.args()) {
      if (element_of(a.getType()) != Element::I64) throw NoBytecode();
      places_[&a] = program_->arguments + 8 * a.getArgNo();
    }
    for (const llvm::BasicBlock& block : function_)
      for (const llvm::PHINode& phi : block.phis()) places_[&phi] = take(kind_of(phi.getType()));
    for (const llvm::BasicBlock& block : function_) {
      begins_[&block] = here();
      for (const llvm::Instruction& i : block)
        if (!llvm::isa<llvm::PHINode>(i)) instruction(i);
    }
    for (const auto& [from, field, block] : jumps_) {
      const int32_t distance = static_cast<int32_t>(begins_.lookup(block)) - static_cast<int32_t>(from);
      (field ? program_->code[from].to.no : program_->code[from].to.yes) = distance;
    }
    program_->frame_bytes = size_;
    program_->looped = count_looped();
    return std::move(program_);
  }

 private:
  static constexpr uint32_t kVectorAlignment = 64;

  // Of loops, those are innermost into which none jumps back.
  size_t count_looped() const {
    struct Loop {
      uint32_t begin, end;
    };
    std::vector<Loop> loops;
    for (const Jump& j : jumps_)
      if (const uint32_t to = begins_.lookup(j.to); to <= j.from) loops.push_back({to, j.from + 1});
    std::vector<bool> looped(here());
    for (const Loop& l : loops)
      if (std::ranges::none_of(loops, [&](const Loop& o) {
            return o.begin >= l.begin && o.end <= l.end && o.end - o.begin < l.end - l.begin;
          }))
        std::fill(looped.begin() + l.begin, looped.begin() + l.end, true);
    return static_cast<size_t>(std::ranges::count(looped, true));
  }

  uint32_t here() const { return static_cast<uint32_t>(program_->code.size()); }

  uint32_t take(uint32_t bytes, uint32_t alignment) {
    const size_t at = (size_ + alignment - 1) / alignment * alignment;
    size_ = at + bytes;
    if (size_ > kMostFrame) throw NoBytecode();
    return static_cast<uint32_t>(at);
  }
  uint32_t take(Kind k) { return take(k.bytes(), k.lanes > 1 ? std::min(kVectorAlignment, k.bytes()) : 8); }

  // ---- Constants

  void place_constants() {
    for (const llvm::BasicBlock& block : function_)
      for (const llvm::Instruction& i : block)
        for (const llvm::Value* v : i.operands())
          if (const auto* c = llvm::dyn_cast<llvm::Constant>(v); c && !llvm::isa<llvm::Function>(c)) place_constant(c);
  }

  void place_constant(const llvm::Constant* c) {
    if (places_.contains(c) || c->getType()->isMetadataTy()) return;
    const Kind k = kind_of(c->getType());
    const uint32_t at = places_[c] = take(k);
    program_->constants.resize(size_);
    for (uint32_t l = 0; l < k.lanes; ++l) {
      const llvm::Constant* e = c->getType()->isVectorTy() ? c->getAggregateElement(l) : c;
      const uint64_t bits = bits_of(e);
      std::memcpy(program_->constants.data() + at + l * size_of(k.element), &bits, size_of(k.element));
    }
  }

  uint64_t bits_of(const llvm::Constant* c) {
    if (!c) throw NoBytecode();
    if (llvm::isa<llvm::UndefValue>(c) || c->isNullValue()) return 0;
    if (const auto* i = llvm::dyn_cast<llvm::ConstantInt>(c)) return i->getZExtValue();
    if (const auto* x = llvm::dyn_cast<llvm::ConstantFP>(c)) return x->getValueAPF().bitcastToAPInt().getZExtValue();
    if (const auto* g = llvm::dyn_cast<llvm::GlobalVariable>(c)) return address_of_table(*g);
    throw NoBytecode();
  }

  uint64_t address_of_table(const llvm::GlobalVariable& g) {
    const auto* data = g.isConstant() && g.hasInitializer()
                           ? llvm::dyn_cast<llvm::ConstantDataSequential>(g.getInitializer())
                           : nullptr;
    if (!data) throw NoBytecode();
    const llvm::StringRef raw = data->getRawDataValues();
    return reinterpret_cast<uint64_t>(keep(raw.data(), raw.size()));
  }

  const void* keep(const char* data, size_t bytes) {
    auto table = std::make_unique<char[]>(bytes);
    std::memcpy(table.get(), data, bytes);
    return program_->tables.emplace_back(std::move(table)).get();
  }

  // ---- Values

  uint32_t place(const llvm::Value* v) const {
    const auto found = places_.find(v);
    if (found == places_.end()) throw NoBytecode();
    return found->second;
  }
  uint32_t result(const llvm::Instruction& i) { return places_[&i] = take(kind_of(i.getType())); }

  // The value is what lies in another's place, from a byte on. A phi's place is written anew.
  void same(const llvm::Instruction& i, const llvm::Value* of, uint32_t offset = 0) {
    if (!llvm::isa<llvm::PHINode>(of)) {
      places_[&i] = place(of) + offset;
      return;
    }
    const Kind k = kind_of(i.getType());
    emit(operation(Code::Move, k), result(i), place(of) + offset).lanes = k.lanes;
  }

  static Operation operation(Code code, Kind k) {
    const Operation found = bytecode::operation(code, k.element, k.lanes);
    if (!found) throw NoBytecode();
    return found;
  }

  Instruction& emit(Operation run, uint32_t out, uint32_t a = 0, uint32_t b = 0, uint32_t c = 0) {
    if (here() >= kMostInstructions) throw NoBytecode();
    return program_->code.emplace_back(Instruction{run, out, a, b, c, 1, 0, {0}});
  }
  // Over the lanes of the first operand, or of the result if there is none.
  Instruction& emit(Code code, const llvm::Instruction& i, std::initializer_list<const llvm::Value*> operands) {
    const Kind k = kind_of((operands.size() ? *operands.begin() : &i)->getType());
    return emit_as(code, k, i, operands);
  }
  Instruction& emit_as(Code code, Kind k, const llvm::Instruction& i,
                       std::initializer_list<const llvm::Value*> operands) {
    uint32_t at[3] = {};
    size_t n = 0;
    for (const llvm::Value* v : operands) at[n++] = place(v);
    const bool gives = !i.getType()->isVoidTy();
    const Operation run = operation(code, k);
    Instruction& made = emit(run, gives ? result(i) : 0, at[0], at[1], at[2]);
    made.lanes = k.lanes;
    return made;
  }

  // ---- Instructions

  void instruction(const llvm::Instruction& i) {
    using I = llvm::Instruction;
    const auto operand = [&](unsigned n) { return i.getOperand(n); };
    switch (i.getOpcode()) {
      case I::Ret:
        emit(bytecode::operation(Code::End, Element::I64, 1), 0);
        return;
      case I::Br:
        return branch(llvm::cast<llvm::BranchInst>(i));
      case I::ICmp:
      case I::FCmp:
        emit(comparison(llvm::cast<llvm::CmpInst>(i).getPredicate()), i, {operand(0), operand(1)});
        return;
      case I::Select:
        if (const Kind k = kind_of(i.getType()); operand(0)->getType()->isVectorTy() || k.lanes == 1)
          emit_as(Code::Select, k, i, {operand(0), operand(1), operand(2)});
        else
          emit_as(Code::SelectAll, k, i, {operand(0), operand(1), operand(2)});
        return;
      case I::FNeg:
        emit(Code::Neg, i, {operand(0)});
        return;
      case I::Load:
        emit_as(Code::Load, in_memory(i.getType()), i, {operand(0)});
        return;
      case I::Store:
        emit_as(Code::Store, in_memory(operand(0)->getType()), i, {operand(0), operand(1)});
        return;
      case I::GetElementPtr:
        return address(llvm::cast<llvm::GetElementPtrInst>(i));
      case I::Alloca: {
        const auto size = llvm::cast<llvm::AllocaInst>(i).getAllocationSize(layout_);
        if (!size || size->isScalable() || *size > kMostFrame) throw NoBytecode();
        const uint32_t memory = take(static_cast<uint32_t>(size->getFixedValue()), kVectorAlignment);
        emit(bytecode::operation(Code::FrameAddress, Element::I64, 1), result(i)).number = memory;
        return;
      }
      case I::BitCast:
      case I::PtrToInt:
      case I::IntToPtr:
      case I::Freeze: {
        const Kind from = kind_of(operand(0)->getType()), to = kind_of(i.getType());
        const bool bools = from.element == Element::Bool || to.element == Element::Bool;
        if (from.bytes() != to.bytes() || (bools && from.element != to.element)) throw NoBytecode();
        return same(i, operand(0));
      }
      case I::ExtractElement: {
        const auto* at = llvm::dyn_cast<llvm::ConstantInt>(operand(1));
        if (!at) throw NoBytecode();
        return same(i, operand(0), static_cast<uint32_t>(at->getZExtValue() * size_of(kind_of(i.getType()).element)));
      }
      case I::InsertElement:
        return insert(llvm::cast<llvm::InsertElementInst>(i));
      case I::ShuffleVector:
        return shuffle(llvm::cast<llvm::ShuffleVectorInst>(i));
      case I::ZExt:
      case I::SExt:
      case I::Trunc:
      case I::FPExt:
      case I::FPTrunc:
      case I::FPToSI:
      case I::SIToFP:
        return convert(i);
      case I::Call:
        return call(llvm::cast<llvm::CallInst>(i));
      default:
        break;
    }
    if (const auto code = binary(i.getOpcode())) {
      emit(*code, i, {operand(0), operand(1)});
      return;
    }
    throw NoBytecode();
  }

  static std::optional<Code> binary(unsigned opcode) {
    using I = llvm::Instruction;
    switch (opcode) {
      case I::Add:
      case I::FAdd:
        return Code::Add;
      case I::Sub:
      case I::FSub:
        return Code::Sub;
      case I::Mul:
      case I::FMul:
        return Code::Mul;
      case I::FDiv:
        return Code::Div;
      case I::UDiv:
        return Code::UDiv;
      case I::URem:
        return Code::URem;
      case I::SDiv:
        return Code::SDiv;
      case I::SRem:
        return Code::SRem;
      case I::And:
        return Code::And;
      case I::Or:
        return Code::Or;
      case I::Xor:
        return Code::Xor;
      case I::Shl:
        return Code::Shl;
      case I::LShr:
        return Code::LShr;
      case I::AShr:
        return Code::AShr;
      default:
        return {};
    }
  }

  static Code comparison(llvm::CmpInst::Predicate p) {
    using P = llvm::CmpInst;
    switch (p) {
      case P::ICMP_EQ:
      case P::FCMP_OEQ:
        return Code::Eq;
      case P::ICMP_NE:
      case P::FCMP_UNE:
        return Code::Ne;
      case P::ICMP_SLT:
      case P::FCMP_OLT:
        return Code::Lt;
      case P::ICMP_SLE:
      case P::FCMP_OLE:
        return Code::Le;
      case P::ICMP_SGT:
      case P::FCMP_OGT:
        return Code::Gt;
      case P::ICMP_SGE:
      case P::FCMP_OGE:
        return Code::Ge;
      case P::ICMP_ULT:
      case P::FCMP_ULT:
        return Code::ULt;
      case P::ICMP_ULE:
      case P::FCMP_ULE:
        return Code::ULe;
      case P::ICMP_UGT:
      case P::FCMP_UGT:
        return Code::UGt;
      case P::ICMP_UGE:
      case P::FCMP_UGE:
        return Code::UGe;
      case P::FCMP_ONE:
        return Code::OneF;
      case P::FCMP_ORD:
        return Code::Ord;
      case P::FCMP_UNO:
        return Code::Uno;
      case P::FCMP_UEQ:
        return Code::UEq;
      default:
        throw NoBytecode();
    }
  }

  // Bools are other bits there.
  static Kind in_memory(const llvm::Type* type) {
    const Kind k = kind_of(type);
    if (k.element == Element::Bool) throw NoBytecode();
    return k;
  }

  void jump_to(const llvm::BasicBlock* block, uint32_t from, bool no) { jumps_.push_back({from, no, block}); }

  // What the phis of a block are, coming from another.
  void moves(const llvm::BasicBlock* from, const llvm::BasicBlock* to) {
    struct Move {
      Kind kind;
      uint32_t out, in;
    };
    std::vector<Move> all;
    for (const llvm::PHINode& phi : to->phis()) {
      const llvm::Value* v = phi.getIncomingValueForBlock(from);
      if (llvm::isa<llvm::UndefValue>(v)) continue;
      const Move m{kind_of(phi.getType()), place(&phi), place(v)};
      if (m.out != m.in) all.push_back(m);
    }
    // Those that read what another writes first read it.
    for (Move& m : all)
      for (const Move& other : all)
        if (&m != &other && m.in < other.out + other.kind.bytes() && other.out < m.in + m.kind.bytes()) {
          const uint32_t kept = take(m.kind);
          emit(operation(Code::Move, m.kind), kept, m.in).lanes = m.kind.lanes;
          m.in = kept;
          break;
        }
    for (const Move& m : all) emit(operation(Code::Move, m.kind), m.out, m.in).lanes = m.kind.lanes;
  }

  void branch(const llvm::BranchInst& i) {
    const llvm::BasicBlock* from = i.getParent();
    const auto go = [&](const llvm::BasicBlock* to) {
      moves(from, to);
      const uint32_t at = here();
      emit(bytecode::operation(Code::Jump, Element::I64, 1), 0);
      jump_to(to, at, false);
    };
    if (i.isUnconditional()) return go(i.getSuccessor(0));
    const uint32_t at = here();
    emit(bytecode::operation(Code::Branch, Element::I64, 1), 0, place(i.getCondition()));
    for (const bool no : {false, true}) {
      const llvm::BasicBlock* to = i.getSuccessor(no);
      if (to->phis().empty()) {
        jump_to(to, at, no);
        continue;
      }
      const auto distance = static_cast<int32_t>(here() - at);
      (no ? program_->code[at].to.no : program_->code[at].to.yes) = distance;
      go(to);
    }
  }

  void address(const llvm::GetElementPtrInst& i) {
    const llvm::Value *base = i.getPointerOperand(), *index = i.getOperand(1);
    if (i.getNumIndices() != 1 || kind_of(index->getType()).element != Element::I64) throw NoBytecode();
    const auto scale = layout_.getTypeAllocSize(i.getSourceElementType());
    if (scale.isScalable() || scale.getFixedValue() > kMostFrame) throw NoBytecode();
    const bool many = index->getType()->isVectorTy(), of_many = base->getType()->isVectorTy();
    if (of_many && !many) throw NoBytecode();
    const Code code = of_many ? Code::Addresses : many ? Code::AddressOfLanes : Code::Address;
    emit_as(code, kind_of(i.getType()), i, {base, index}).more = static_cast<uint32_t>(scale.getFixedValue());
  }

  void insert(const llvm::InsertElementInst& i) {
    const auto* at = llvm::dyn_cast<llvm::ConstantInt>(i.getOperand(2));
    if (!at) throw NoBytecode();
    const Kind k = kind_of(i.getType());
    const uint32_t out = result(i);
    if (!llvm::isa<llvm::UndefValue>(i.getOperand(0)))
      emit(operation(Code::Move, k), out, place(i.getOperand(0))).lanes = k.lanes;
    const auto offset = static_cast<uint32_t>(at->getZExtValue() * size_of(k.element));
    emit(operation(Code::Move, {k.element, 1}), out + offset, place(i.getOperand(1)));
  }

  void shuffle(const llvm::ShuffleVectorInst& i) {
    const Kind k = kind_of(i.getType());
    const uint32_t of = kind_of(i.getOperand(0)->getType()).lanes;
    std::vector<int32_t> mask(i.getShuffleMask().begin(), i.getShuffleMask().end());
    for (int32_t& m : mask) m = std::max(m, 0);  // poison
    const auto runs = [&](int32_t step) {
      for (size_t l = 0; l < mask.size(); ++l)
        if (mask[l] != mask[0] + step * static_cast<int32_t>(l)) return false;
      return static_cast<uint32_t>(mask[0]) < of && (step == 0 || static_cast<uint32_t>(mask[0]) + mask.size() <= of);
    };
    const auto offset = static_cast<uint32_t>(static_cast<size_t>(mask[0]) * size_of(k.element));
    if (k.lanes == 1 || runs(1)) {
      if (static_cast<uint32_t>(mask[0]) >= of) throw NoBytecode();
      return same(i, i.getOperand(0), offset);
    }
    if (runs(0)) {
      const uint32_t from = place(i.getOperand(0)) + offset;
      emit(operation(Code::Splat, k), result(i), from).lanes = k.lanes;
      return;
    }
    Instruction& made = emit_as(Code::Shuffle, k, i, {i.getOperand(0), i.getOperand(1)});
    made.more = of;
    made.table = keep(reinterpret_cast<const char*>(mask.data()), mask.size() * sizeof(int32_t));
  }

  void convert(const llvm::Instruction& i) {
    using I = llvm::Instruction;
    const Kind from = kind_of(i.getOperand(0)->getType()), to = kind_of(i.getType());
    const bool is_signed = i.getOpcode() != I::ZExt && i.getOpcode() != I::Trunc;
    const Operation run = bytecode::conversion(from.element, to.element, is_signed, to.lanes);
    if (!run) throw NoBytecode();
    emit(run, result(i), place(i.getOperand(0))).lanes = to.lanes;
  }

  void call(const llvm::CallInst& i) {
    using namespace llvm;
    const auto operand = [&](unsigned n) { return i.getArgOperand(n); };
    switch (i.getIntrinsicID()) {
      case Intrinsic::prefetch:
      case Intrinsic::assume:
        return;
      case Intrinsic::masked_load:
        emit_as(Code::LoadMasked, in_memory(i.getType()), i, {operand(0), operand(2), operand(3)});
        return;
      case Intrinsic::masked_gather:
        emit_as(Code::Gather, in_memory(i.getType()), i, {operand(0), operand(2), operand(3)});
        return;
      case Intrinsic::masked_store:
      case Intrinsic::masked_scatter: {
        const bool scatters = i.getIntrinsicID() == Intrinsic::masked_scatter;
        emit_as(scatters ? Code::Scatter : Code::StoreMasked, in_memory(operand(0)->getType()), i,
                {operand(0), operand(1), operand(3)});
        return;
      }
      case Intrinsic::vector_reduce_or:
        if (kind_of(operand(0)->getType()).element != Element::Bool) throw NoBytecode();
        emit(Code::AnyOf, i, {operand(0)});
        return;
      case Intrinsic::fma:
        emit(Code::Fma, i, {operand(0), operand(1), operand(2)});
        return;
      default:
        break;
    }
    const auto code = function(i.getIntrinsicID());
    if (!code) throw NoBytecode();
    if (i.arg_size() == 1)
      emit(*code, i, {operand(0)});
    else
      emit(*code, i, {operand(0), operand(1)});
  }

  static std::optional<Code> function(llvm::Intrinsic::ID id) {
    using namespace llvm;
    switch (id) {
      case Intrinsic::smin:
        return Code::SMin;
      case Intrinsic::smax:
        return Code::SMax;
      case Intrinsic::umin:
        return Code::UMin;
      case Intrinsic::umax:
        return Code::UMax;
      case Intrinsic::fabs:
        return Code::Abs;
      case Intrinsic::copysign:
        return Code::CopySign;
      case Intrinsic::sqrt:
        return Code::Sqrt;
      case Intrinsic::floor:
        return Code::Floor;
      case Intrinsic::ceil:
        return Code::Ceil;
      case Intrinsic::trunc:
        return Code::Trunc;
      case Intrinsic::roundeven:
        return Code::RoundEven;
      default:
        return {};
    }
  }

  static constexpr size_t kMostFrame = 256 * 1024, kMostInstructions = 20'000;

  const llvm::Function& function_;
  const llvm::DataLayout& layout_;
  std::unique_ptr<bytecode::Program> program_;
  size_t size_ = 0;  // of the frame
  llvm::DenseMap<const llvm::Value*, uint32_t> places_;
  llvm::DenseMap<const llvm::BasicBlock*, uint32_t> begins_;
  struct Jump {
    uint32_t from;
    bool no;
    const llvm::BasicBlock* to;
  };
  std::vector<Jump> jumps_;
};

}  // namespace

std::unique_ptr<const bytecode::Program> bytecode_of(const llvm::Function& function) {
  try {
    return BytecodeTranslator(function).translate();
  } catch (const NoBytecode&) {
    return nullptr;
  }
}

}  // namespace lazuli::jit
