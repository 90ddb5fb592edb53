// A thin layer over IRBuilder for code that computes one value per lane: every type is <lanes x T>, or plain T when
// lanes is 1. Primitives and math are written over it once, for every vector width and for scalar GPU threads.
// No fast-math flag is ever set: what is fused or reordered is said explicitly, so every target gives equal results.
#pragma once
#include <llvm/IR/IRBuilder.h>

#include <array>
#include <functional>
#include <utility>

#include "ir/dtype.h"

namespace lazuli::lowering {

// What differs between machines for the code that is written over VectorIR.
struct Machine {
  bool nvptx = false;     // an NVIDIA GPU: 2^x is an instruction, and so are minima that keep NaN
  unsigned x86_bits = 0;  // of an x86 processor's vectors (AVX2 or AVX-512): one instruction permutes them by indices
};

class VectorIR {
 public:
  VectorIR(llvm::IRBuilder<>& builder, unsigned lane_count, Machine what = {})
      : b(builder), lanes(lane_count), machine(what) {}

  llvm::Type* of(llvm::Type* element) const {
    return lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
  }
  llvm::Type* element(ir::DType type) const;  // of a compute type; Bool is i1
  llvm::Type* type(ir::DType t) const { return of(element(t)); }
  llvm::Value* splat(llvm::Value* scalar) const { return lanes == 1 ? scalar : b.CreateVectorSplat(lanes, scalar); }
  llvm::Value* iota() const;  // i64: 0, 1, 2, ...

  llvm::IRBuilder<>& b;
  const unsigned lanes;
  const Machine machine;
};

// A per-lane value with operators. Floating or integer meaning follows the value's own type.
struct Vec {
  VectorIR* ir = nullptr;
  llvm::Value* v = nullptr;

  llvm::IRBuilder<>& b() const { return ir->b; }
  llvm::Type* element() const { return v->getType()->getScalarType(); }
  bool floating() const { return element()->isFloatingPointTy(); }
  bool f64() const { return element()->isDoubleTy(); }
  unsigned bits() const { return element()->getScalarSizeInBits(); }
  Vec with(llvm::Value* value) const { return {ir, value}; }
};

Vec number(Vec like, double value);    // splat of like's type
Vec integer(Vec like, int64_t value);  // splat of like's type; integers only
Vec pattern(Vec like, uint64_t bits);  // splat of a floating type given by its bits

Vec operator+(Vec a, Vec b);
Vec operator-(Vec a, Vec b);
Vec operator*(Vec a, Vec b);
Vec operator/(Vec a, Vec b);  // floating only
Vec operator-(Vec a);
Vec operator&(Vec a, Vec b);
Vec operator|(Vec a, Vec b);
Vec operator^(Vec a, Vec b);
Vec operator~(Vec a);
#define LAZULI_VEC_NUMBER(op)                                           \
  inline Vec operator op(Vec a, double b) { return a op number(a, b); } \
  inline Vec operator op(double a, Vec b) { return number(b, a) op b; }
LAZULI_VEC_NUMBER(+)
LAZULI_VEC_NUMBER(-)
LAZULI_VEC_NUMBER(*)
LAZULI_VEC_NUMBER(/)
#undef LAZULI_VEC_NUMBER

Vec shl(Vec a, unsigned n);
Vec lshr(Vec a, unsigned n);
Vec ashr(Vec a, unsigned n);

// Masks. Floating comparisons are false on NaN, except ne.
Vec eq(Vec a, Vec b);
Vec ne(Vec a, Vec b);
Vec lt(Vec a, Vec b);
Vec le(Vec a, Vec b);
Vec ult(Vec a, Vec b);  // unsigned integers
inline Vec gt(Vec a, Vec b) { return lt(b, a); }
inline Vec ge(Vec a, Vec b) { return le(b, a); }
inline Vec lt(Vec a, double b) { return lt(a, number(a, b)); }
inline Vec le(Vec a, double b) { return le(a, number(a, b)); }
inline Vec gt(Vec a, double b) { return gt(a, number(a, b)); }
inline Vec ge(Vec a, double b) { return ge(a, number(a, b)); }
inline Vec eq(Vec a, double b) { return eq(a, number(a, b)); }
inline Vec ne(Vec a, double b) { return ne(a, number(a, b)); }
Vec is_nan(Vec a);
Vec select(Vec mask, Vec a, Vec b);
inline Vec select(Vec mask, double a, Vec b) { return select(mask, number(b, a), b); }
inline Vec select(Vec mask, Vec a, double b) { return select(mask, a, number(a, b)); }
llvm::Value* any(Vec mask);  // i1

Vec fma(Vec a, Vec b, Vec c);  // rounded once
inline Vec fma(Vec a, Vec b, double c) { return fma(a, b, number(a, c)); }
inline Vec fma(Vec a, double b, Vec c) { return fma(a, number(a, b), c); }
inline Vec fma(Vec a, double b, double c) { return fma(a, number(a, b), number(a, c)); }
Vec abs(Vec a);  // floating
Vec copysign(Vec magnitude, Vec sign);
Vec sqrt(Vec a);
Vec floor(Vec a);
Vec ceil(Vec a);
Vec trunc(Vec a);
Vec round_even(Vec a);
// One instruction on x86: where an operand is NaN the result is b.
Vec min_or_second(Vec a, Vec b);
Vec max_or_second(Vec a, Vec b);
Vec clamp(Vec x, double low, double high);  // NaN stays NaN

Vec bits_of(Vec a);                                // floating to the integer of its width
Vec from_bits(Vec a);                              // i32 to float, i64 to double
Vec resize(Vec a, unsigned bits, bool is_signed);  // integer to integer
Vec to_integer(Vec a, unsigned bits);              // truncates; out of range gives whatever the target gives
Vec to_floating(Vec a, llvm::Type* element, bool is_signed = true);
// Of float32 on NVIDIA GPUs: within 2 units in the last place, subnormal numbers flushed.
Vec exp2_instruction(Vec a);
// The same without flushing, in four instructions.
Vec gradual_exp2_instruction(Vec a);
// Of float32 on NVIDIA GPUs, within 2 units in the last place; of reciprocals, subnormal numbers are flushed, and
// log2's error near 1 is 2^-22 absolutely.
Vec reciprocal_instruction(Vec a);
Vec sqrt_instruction(Vec a);
Vec rsqrt_instruction(Vec a);
Vec log2_instruction(Vec a);
// Of float32 on NVIDIA GPUs: NaN if either is NaN; of zeros the negative one is the smaller.
Vec min_instruction(Vec a, Vec b);
Vec max_instruction(Vec a, Vec b);
// Two float32 rounded to reduced floating types, in the halves of an integer.
Vec bf16_pair_instruction(Vec low, Vec high);
Vec f16_pair_instruction(Vec low, Vec high);
Vec to_f64(Vec a);
Vec to_f32(Vec a);

// Polynomial in x, highest coefficient first, by Horner's rule with fused steps.
Vec horner(Vec x, std::initializer_list<double> coefficients);

// entries[index & 15] in each lane, of index's width: 32 bits give float32, 64 bits float64.
Vec look_up(const std::array<double, 16>& entries, Vec index);

// `usual`, with the lanes of `mask` replaced by what `rare` computes; `rare` is skipped when no lane needs it.
Vec when_any(Vec mask, Vec usual, const std::function<Vec()>& rare);
std::pair<Vec, Vec> when_any(Vec mask, std::pair<Vec, Vec> usual, const std::function<std::pair<Vec, Vec>()>& rare);

}  // namespace lazuli::lowering
