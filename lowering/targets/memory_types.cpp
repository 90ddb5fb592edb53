#include "lowering/targets/memory_types.h"

namespace lazuli::lowering {
using ir::DType;

llvm::Type* memory_element(llvm::IRBuilder<>& b, DType memory) {
  switch (memory) {
    case DType::F32:
      return b.getFloatTy();
    case DType::F64:
      return b.getDoubleTy();
    default:
      return b.getIntNTy(static_cast<unsigned>(ir::item_size(memory)) * 8);
  }
}

Vec widen(Vec x, DType memory) {
  llvm::IRBuilder<>& b = x.b();
  switch (memory) {
    case DType::Bool:
      return ne(x, 0);
    case DType::BF16:
      return from_bits(shl(resize(x, 32, false), 16));
    case DType::F16: {
      Vec half = x.with(b.CreateBitCast(x.v, x.ir->of(b.getHalfTy())));
      return x.with(b.CreateFPExt(half.v, x.ir->of(b.getFloatTy())));
    }
    default:
      return x;
  }
}

// The bits of the nearest bfloat16 in the upper half; the lower half is zero from a GPU's instruction, else garbage. By
// integers rather than by AVX512-BF16, whose conversion flushes subnormal numbers to zero.
static Vec rounded_number(Vec x) {
  if (x.ir->machine.nvptx) return bf16_pair_instruction(number(x, 0), x);
  Vec u = bits_of(x);
  Vec odd = lshr(u, 16) & integer(u, 1);
  return u + (odd + integer(u, 0x7FFF));
}
static Vec rounded_bf16(Vec x) {
  if (x.ir->machine.nvptx) return rounded_number(x);
  Vec quiet = bits_of(x) | integer(bits_of(x), 0x400000);  // the upper half may hold none of a NaN's payload
  return select(is_nan(x), quiet, rounded_number(x));
}
static Vec upper_half(Vec u) { return from_bits(u.ir->machine.nvptx ? u : u & integer(u, ~int64_t{0xFFFF})); }

Vec narrow(Vec x, DType memory) {
  llvm::IRBuilder<>& b = x.b();
  switch (memory) {
    case DType::Bool:
      return resize(x, 8, false);
    case DType::BF16:
      return resize(lshr(rounded_bf16(x), 16), 16, false);
    case DType::F16: {
      Vec half = x.with(b.CreateFPTrunc(x.v, x.ir->of(b.getHalfTy())));
      return x.with(b.CreateBitCast(half.v, x.ir->of(b.getInt16Ty())));
    }
    default:
      return x;
  }
}

Vec round_to(Vec x, DType memory) {
  return memory == DType::BF16 ? upper_half(rounded_bf16(x)) : widen(narrow(x, memory), memory);
}
Vec round_bf16_result(Vec x) { return upper_half(rounded_number(x)); }

}  // namespace lazuli::lowering
