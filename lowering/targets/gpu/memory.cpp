#include "lowering/targets/gpu/memory.h"

#include "lowering/targets/memory_types.h"

namespace lazuli::lowering::gpu {
namespace {
using ir::DType;
using llvm::Value;

unsigned bytes_of(DType memory) { return static_cast<unsigned>(ir::item_size(memory)); }

bool is_short_float(DType t) { return t == DType::BF16 || t == DType::F16; }

// Two short floats in one word, rounded to nearest even by the conversion of pairs.
Value* short_pair(VectorIR& ir, DType memory, Value* low, Value* high) {
  const Vec l{&ir, low}, h{&ir, high};
  return (memory == DType::BF16 ? bf16_pair_instruction(l, h) : f16_pair_instruction(l, h)).v;
}

// An access of `bytes`, a power of two up to 16, in words of 8 or 4 bytes or less.
llvm::Type* access_type(llvm::IRBuilder<>& b, unsigned bytes, unsigned item) {
  if (item == 8)
    return bytes == 8 ? b.getInt64Ty() : static_cast<llvm::Type*>(llvm::FixedVectorType::get(b.getInt64Ty(), 2));
  if (bytes <= 4) return b.getIntNTy(bytes * 8);
  return llvm::FixedVectorType::get(b.getInt32Ty(), bytes / 4);
}

Value* word_of(llvm::IRBuilder<>& b, Value* access, unsigned k) {
  return access->getType()->isVectorTy() ? b.CreateExtractElement(access, uint64_t{k}) : access;
}

Value* moved(llvm::IRBuilder<>& b, Value* address, unsigned bytes) {
  return bytes ? b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), address, bytes) : address;
}

unsigned word_bytes(DType memory, unsigned all) { return bytes_of(memory) == 8 ? 8 : std::min(4u, all); }

Value* from_raw(VectorIR& ir, DType memory, Value* raw) {
  return widen({&ir, ir.b.CreateBitCast(raw, memory_element(ir.b, memory))}, memory).v;
}

Value* to_raw(VectorIR& ir, DType memory, Value* x) {
  llvm::IRBuilder<>& b = ir.b;
  llvm::Type* raw = b.getIntNTy(bytes_of(memory) * 8);
  if (is_short_float(memory))
    return b.CreateTrunc(short_pair(ir, memory, x, llvm::ConstantFP::get(x->getType(), 0)), raw);
  return b.CreateBitCast(narrow({&ir, x}, memory).v, raw);
}

// The words that hold `x`, each of up to 4 bytes (8 for items of 8).
Values packed(VectorIR& ir, DType memory, llvm::ArrayRef<Value*> x) {
  llvm::IRBuilder<>& b = ir.b;
  const unsigned item = bytes_of(memory), step = per_word(memory);
  Values words;
  for (unsigned k = 0; k < x.size(); k += step) {
    const unsigned n = std::min<unsigned>(step, static_cast<unsigned>(x.size()) - k);
    if (n == 1) {
      words.push_back(to_raw(ir, memory, x[k]));
      continue;
    }
    if (is_short_float(memory)) {
      words.push_back(short_pair(ir, memory, x[k], x[k + 1]));
      continue;
    }
    llvm::Type* type = b.getIntNTy(n * item * 8);
    Value* word = nullptr;
    for (unsigned c = 0; c < n; ++c) {
      Value* part = b.CreateZExt(to_raw(ir, memory, x[k + c]), type);
      if (c) part = b.CreateShl(part, c * item * 8);
      word = word ? b.CreateOr(word, part) : part;
    }
    words.push_back(word);
  }
  return words;
}

}  // namespace

unsigned per_word(DType memory) { return std::max(1u, 4 / bytes_of(memory)); }

Values load_words(VectorIR& ir, DType memory, Value* address, unsigned lanes, unsigned widest) {
  llvm::IRBuilder<>& b = ir.b;
  const unsigned item = bytes_of(memory), all = item * lanes, word = word_bytes(memory, all);
  const unsigned bytes = std::min(all, std::max(widest, word));
  Values words;
  for (unsigned at = 0; at < all; at += bytes) {
    Value* access = b.CreateAlignedLoad(access_type(b, bytes, item), moved(b, address, at), llvm::Align(bytes));
    for (unsigned k = 0; k < bytes / word; ++k) words.push_back(word_of(b, access, k));
  }
  return words;
}

void store_words(VectorIR& ir, DType memory, Value* address, const Values& words, unsigned lanes, unsigned widest) {
  llvm::IRBuilder<>& b = ir.b;
  const unsigned item = bytes_of(memory), all = item * lanes, word = word_bytes(memory, all);
  const unsigned bytes = std::min(all, std::max(widest, word)), per_access = bytes / word;
  llvm::Type* type = access_type(b, bytes, item);
  for (unsigned k = 0; k < words.size(); k += per_access) {
    Value* access = words[k];
    if (type->isVectorTy()) {
      access = llvm::PoisonValue::get(type);
      for (unsigned c = 0; c < per_access; ++c) access = b.CreateInsertElement(access, words[k + c], uint64_t{c});
    }
    b.CreateAlignedStore(access, moved(b, address, k * word), llvm::Align(bytes));
  }
}

Value* load_one(VectorIR& ir, DType memory, Value* address) { return load_neighbours(ir, memory, address, 1)[0]; }
void store_one(VectorIR& ir, DType memory, Value* address, Value* x) { store_neighbours(ir, memory, address, {x}); }

Values load_neighbours(VectorIR& ir, DType memory, Value* address, unsigned lanes) {
  llvm::IRBuilder<>& b = ir.b;
  const unsigned item = bytes_of(memory), word = word_bytes(memory, item * lanes);
  Values x;
  for (Value* w : load_words(ir, memory, address, lanes))
    for (unsigned k = 0; k < word; k += item) {
      Value* part = item < word ? b.CreateTrunc(k ? b.CreateLShr(w, k * 8) : w, b.getIntNTy(item * 8)) : w;
      x.push_back(from_raw(ir, memory, part));
    }
  return x;
}

void store_neighbours(VectorIR& ir, DType memory, Value* address, llvm::ArrayRef<Value*> x) {
  store_words(ir, memory, address, packed(ir, memory, x), static_cast<unsigned>(x.size()));
}

}  // namespace lazuli::lowering::gpu
