#include "lowering/targets/cpu/memory.h"

#include <llvm/IR/Intrinsics.h>

#include "lowering/targets/loop.h"
#include "lowering/targets/memory_types.h"

namespace lazuli::lowering::cpu {
namespace {

using llvm::Value;

// Without AVX-512 there are masked accesses only for 4 and 8 byte elements.
bool has_masked_access(const CpuTarget& target, ir::DType memory) { return target.masks || ir::item_size(memory) >= 4; }

llvm::Align alignment(ir::DType memory) { return llvm::Align(static_cast<uint64_t>(ir::item_size(memory))); }

Value* lane_address(VectorIR& ir, const Place& p, llvm::Type* element, Value* lane) {
  Value* address = p.stride ? ir.b.CreatePtrAdd(p.address, ir.b.CreateMul(lane, p.stride))
                            : ir.b.CreateGEP(element, p.address, lane);
  return p.offsets ? ir.b.CreatePtrAdd(address, ir.b.CreateExtractElement(p.offsets, lane)) : address;
}

// Element by element through a stack slot, for the first `count` lanes: tails that have no masked instruction.
Value* load_partly(VectorIR& ir, const Place& p, llvm::Type* element) {
  llvm::Type* type = ir.of(element);
  Value* slot = stack_slot(ir.b, type);
  ir.b.CreateStore(llvm::Constant::getNullValue(type), slot);
  emit_loop(ir.b, "load.lanes", ir.b.getInt64(0), p.count, ir.b.getInt64(1), {}, [&](Value* lane) {
    ir.b.CreateStore(ir.b.CreateLoad(element, lane_address(ir, p, element, lane)), ir.b.CreateGEP(element, slot, lane));
  });
  return ir.b.CreateLoad(type, slot);
}
void store_partly(VectorIR& ir, const Place& p, llvm::Type* element, Value* x) {
  Value* slot = stack_slot(ir.b, x->getType());
  ir.b.CreateStore(x, slot);
  Value* count = p.count ? p.count : ir.b.getInt64(ir.lanes);
  emit_loop(ir.b, "store.lanes", ir.b.getInt64(0), count, ir.b.getInt64(1), {}, [&](Value* lane) {
    ir.b.CreateStore(ir.b.CreateLoad(element, ir.b.CreateGEP(element, slot, lane)), lane_address(ir, p, element, lane));
  });
}

Value* lane_addresses(VectorIR& ir, const Place& p) {
  Value* offsets = p.offsets;
  if (p.stride) {
    Value* strided = ir.b.CreateMul(ir.iota(), ir.splat(p.stride));
    offsets = offsets ? ir.b.CreateAdd(offsets, strided) : strided;
  }
  return ir.b.CreatePtrAdd(p.address, offsets);
}

// One load and one insertion per lane.
Value* load_lanes(VectorIR& ir, const Place& p, llvm::Type* element) {
  Value* x = llvm::PoisonValue::get(ir.of(element));
  Value* address = p.address;
  for (unsigned lane = 0; lane < ir.lanes; ++lane) {
    if (p.offsets) {
      address = lane_address(ir, p, element, ir.b.getInt64(lane));
    } else if (lane) {
      address = ir.b.CreatePtrAdd(address, p.stride);
    }
    x = ir.b.CreateInsertElement(x, ir.b.CreateLoad(element, address), lane);
  }
  return x;
}

// Of the last lane of a vector that lies backward, where its memory begins.
Value* last(VectorIR& ir, const Place& p, llvm::Type* element) {
  return ir.b.CreateGEP(element, p.address, ir.b.getInt64(-static_cast<int64_t>(ir.lanes - 1)));
}
Value* backwards(VectorIR& ir, Value* x) {
  llvm::SmallVector<int, 64> lanes;
  for (unsigned lane = ir.lanes; lane-- > 0;) lanes.push_back(static_cast<int>(lane));
  return ir.b.CreateShuffleVector(x, lanes);
}

// Whether all lanes exist.
Value* holds_all(VectorIR& ir, const Place& p) { return ir.b.CreateICmpSGE(p.count, ir.b.getInt64(ir.lanes)); }

// Of the lanes that exist. Masked accesses in a row run at a third of the memory's speed (AMD's Zen 4): only a vector
// of which some lanes do not exist is accessed so.
Value* load_dense(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p, llvm::Type* element) {
  llvm::Type* type = ir.of(element);
  const llvm::Align align = alignment(memory);
  Value* begin = p.backward ? last(ir, p, element) : p.address;
  const auto turned = [&](Value* x) { return p.backward ? backwards(ir, x) : x; };
  const auto whole = [&] { return turned(ir.b.CreateAlignedLoad(type, begin, align)); };
  if (!p.count) return whole();
  return choose(ir.b, holds_all(ir, p), whole, [&] {
    if (!has_masked_access(target, memory)) return load_partly(ir, p, element);
    Value* none = llvm::Constant::getNullValue(type);
    return turned(ir.b.CreateMaskedLoad(type, begin, align, turned(p.mask), none));
  });
}
void store_dense(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p, llvm::Type* element,
                 Value* x) {
  const llvm::Align align = alignment(memory);
  Value* begin = p.backward ? last(ir, p, element) : p.address;
  const auto turned = [&](Value* v) { return p.backward ? backwards(ir, v) : v; };
  const auto whole = [&]() -> Value* {
    ir.b.CreateAlignedStore(turned(x), begin, align);
    return nullptr;
  };
  if (!p.count) {
    whole();
    return;
  }
  choose(ir.b, holds_all(ir, p), whole, [&]() -> Value* {
    if (has_masked_access(target, memory))
      ir.b.CreateMaskedStore(turned(x), begin, align, turned(p.mask));
    else
      store_partly(ir, p, element, x);
    return nullptr;
  });
}

// How many elements there are from element `from` of the pairs on; null: all.
Value* elements_of_pairs(VectorIR& ir, const Place& p, unsigned from) {
  if (!p.count) return nullptr;
  Value* left = ir.b.CreateSub(ir.b.CreateShl(p.count, 1), ir.b.getInt64(from + p.alone));
  return ir.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, left, ir.b.getInt64(0));
}

// Two vectors in a row, of which every second element counts. After a lane that is alone nothing is read: the second
// vector begins one element earlier.
Value* load_pairs(VectorIR& ir, const Place& p, llvm::Type* element, llvm::Align align) {
  llvm::Type* type = ir.of(element);
  const auto load = [&](unsigned from) -> Value* {
    Value* address = ir.b.CreateConstGEP1_64(element, p.pairs, from);
    if (!p.count) return ir.b.CreateAlignedLoad(type, address, align);
    Value* mask = lane_mask(ir, elements_of_pairs(ir, p, from));
    return ir.b.CreateMaskedLoad(type, address, align, mask, llvm::Constant::getNullValue(type));
  };
  const unsigned behind = ir.lanes - p.alone;
  Value *low = load(0), *high = load(behind);
  llvm::SmallVector<int, 64> lanes;
  for (unsigned lane = 0; lane < ir.lanes; ++lane) {
    const unsigned at = 2 * lane + p.second;
    lanes.push_back(static_cast<int>(at < ir.lanes ? at : ir.lanes + at - behind));
  }
  return ir.b.CreateShuffleVector(low, high, lanes);
}

}  // namespace

Value* stack_slot(llvm::IRBuilder<>& b, llvm::Type* type) {
  llvm::BasicBlock& entry = b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.getFirstInsertionPt());
  llvm::AllocaInst* slot = at.CreateAlloca(type);
  slot->setAlignment(llvm::Align(64));
  return slot;
}

Value* lane_mask(VectorIR& ir, Value* count) {
  // Lane numbers in 32 bits: half the registers of 64.
  llvm::SmallVector<llvm::Constant*, 64> lane;
  for (unsigned i = 0; i < ir.lanes; ++i) lane.push_back(ir.b.getInt32(i));
  Value* limit = ir.splat(ir.b.CreateTrunc(count, ir.b.getInt32Ty()));
  return ir.b.CreateICmpULT(llvm::ConstantVector::get(lane), limit);
}

Value* load_elements(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p) {
  llvm::Type* element = memory_element(ir.b, memory);
  const bool scattered = (p.stride && !p.backward) || p.offsets;
  if (!scattered) return load_dense(ir, target, memory, p, element);
  const bool partly = p.count && !has_masked_access(target, memory);
  if (p.pairs && !partly) return load_pairs(ir, p, element, alignment(memory));
  if (target.masks && ir::item_size(memory) >= 4) {
    llvm::Type* type = ir.of(element);
    Value* none = llvm::Constant::getNullValue(type);
    return ir.b.CreateMaskedGather(type, lane_addresses(ir, p), alignment(memory), p.mask, none);
  }
  return p.count ? load_partly(ir, p, element) : load_lanes(ir, p, element);
}

void store_elements(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p, Value* x) {
  llvm::Type* element = memory_element(ir.b, memory);
  const bool scattered = (p.stride && !p.backward) || p.offsets;
  if (!scattered)
    store_dense(ir, target, memory, p, element, x);
  else if (target.masks && ir::item_size(memory) >= 4)  // in lane order, so the last lane wins, as it does below
    ir.b.CreateMaskedScatter(x, lane_addresses(ir, p), alignment(memory), p.mask);
  else
    store_partly(ir, p, element, x);
}

void store_pairs(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p, Vec first, Vec second) {
  llvm::Type* element = memory_element(ir.b, memory);
  Value *x = narrow(first, memory).v, *y = narrow(second, memory).v;
  if (p.count && !has_masked_access(target, memory)) {
    store_partly(ir, p, element, x);
    Place next = p;
    next.address = ir.b.CreateConstGEP1_64(element, p.address, 1);
    return store_partly(ir, next, element, y);
  }
  for (const unsigned from : {0u, ir.lanes}) {
    llvm::SmallVector<int, 64> lanes;
    for (unsigned lane = 0; lane < ir.lanes; ++lane)
      lanes.push_back(static_cast<int>((from + lane) / 2 + (lane % 2 ? ir.lanes : 0)));
    Value *both = ir.b.CreateShuffleVector(x, y, lanes), *address = ir.b.CreateConstGEP1_64(element, p.pairs, from);
    if (Value* count = elements_of_pairs(ir, p, from))
      ir.b.CreateMaskedStore(both, address, alignment(memory), lane_mask(ir, count));
    else
      ir.b.CreateAlignedStore(both, address, alignment(memory));
  }
}

Vec load_vector(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p) {
  return widen({&ir, load_elements(ir, target, memory, p)}, memory);
}

void store_vector(VectorIR& ir, const CpuTarget& target, ir::DType memory, const Place& p, Vec x) {
  store_elements(ir, target, memory, p, narrow(x, memory).v);
}

Vec load_scalar(VectorIR& scalar, ir::DType memory, Value* address) {
  Value* x = scalar.b.CreateAlignedLoad(memory_element(scalar.b, memory), address, alignment(memory));
  return widen({&scalar, x}, memory);
}
void store_scalar(VectorIR& scalar, ir::DType memory, Value* address, Vec x) {
  scalar.b.CreateAlignedStore(narrow(x, memory).v, address, alignment(memory));
}

}  // namespace lazuli::lowering::cpu
