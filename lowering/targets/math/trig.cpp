// sin, cos and tan: x = q pi/2 + r, polynomials on |r| <= pi/4 (tools/fit). Reduction by three fused steps (Cody and
// Waite); from 2^15 on with 2/pi to as many bits as the argument needs (M. Payne and R. Hanek, SIGNUM Newsletter 18,
// 1983), which a table of 2^k 2/pi modulo 4 gives without long integers.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include <cmath>

#include "lowering/targets/math/f64.h"
#include "lowering/targets/math/trig_table.h"

namespace lazuli::lowering::math {
namespace {

constexpr double kLargest = 32768;  // of what the fused steps reduce well
constexpr double kTwoOverPi = 0.63661977236758134308;

llvm::GlobalVariable* table(llvm::Module& module) {
  constexpr const char* name = "quarter_turns";
  if (auto* g = module.getNamedGlobal(name)) return g;
  llvm::SmallVector<double, 256> numbers;
  for (const auto& row : kQuarterTurns) numbers.append({row[0], row[1]});
  llvm::Constant* data = llvm::ConstantDataArray::get(module.getContext(), numbers);
  return new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data, name);
}

Vec look_up(llvm::Value* base, Vec index) {
  llvm::IRBuilder<>& b = index.b();
  llvm::Value* address = b.CreateGEP(b.getDoubleTy(), base, index.v);
  llvm::Type* type = index.ir->of(b.getDoubleTy());
  if (index.ir->lanes == 1) return index.with(b.CreateLoad(type, address));
  return index.with(b.CreateMaskedGather(type, address, llvm::Align(8)));
}

struct Angle {
  Vec r, q;  // r float64; q int32, only its two low bits count
};

// For 2^15 <= |x| < infinity.
Angle reduce_huge(Vec x) {
  llvm::GlobalVariable* turns = table(*x.b().GetInsertBlock()->getModule());
  Vec i = bits_of(x);
  Vec mantissa = (i & integer(i, 0x7fffff)) | integer(i, 0x800000);
  Vec row = (lshr(i, 23) & integer(i, 255)) - integer(i, kFirstExponent);
  // Other lanes hold anything, and must not look outside the table.
  row = select(ult(row, integer(row, std::size(kQuarterTurns))), row, 0);
  Vec at = shl(resize(row, 64, false), 1);
  Vec high = look_up(turns, at), low = look_up(turns, at + integer(at, 1));
  Vec m = to_floating(mantissa, high.element());
  Vec quarters = m * high, whole = round_even(quarters);  // exact
  Vec rest = fma(m, low, quarters - whole);
  Vec more = round_even(rest);
  Vec r = (rest - more) * 1.57079632679489661923;
  Vec q = to_integer(whole + more, 32);
  Vec negative = lt(i, 0);
  return {select(negative, -r, r), select(negative, -q, q)};
}

Vec is_huge(Vec x) { return ge(abs(x), kLargest) & lt(abs(x), INFINITY); }

struct Angle32 {
  Vec r, q;
};
Angle32 reduce_f32(Vec x) {
  Vec n = round_even(x * kTwoOverPi);
  Vec r = fma(n, 0x1.777a5cp-25, fma(n, -0x1.921fb6p+0, x));
  r = fma(n, 0x1.ee59dap-50, r);
  auto [rr, q] = when_any(is_huge(x), std::pair{r, to_integer(n, 32)}, [&] {
    Angle a = reduce_huge(x);
    return std::pair{to_f32(a.r), a.q};
  });
  return {rr, q};
}

// sin(x + shift pi/2)
Vec sine(Vec x, int shift) {
  auto [r, q] = reduce_f32(x);
  if (shift) q = q + integer(q, shift);
  Vec z = r * r;
  Vec s = fma(
      r * z, horner(z, {2.836803105310537e-06, -0.00019853476260323077, 0.008333380334079266, -0.1666666716337204}), r);
  Vec c =
      fma(z * z, horner(z, {-2.892178372349008e-07, 2.48224641836714e-05, -0.0013888981193304062, 0.0416666679084301}),
          fma(z, -0.5, 1));
  Vec y = select(ne(q & integer(q, 1), 0), c, s);
  return from_bits(bits_of(y) ^ shl(q & integer(q, 2), 30));
}

Vec tan_f32(Vec x) {
  Vec wide = to_f64(x);
  Vec n = round_even(wide * kTwoOverPi);
  Vec near = fma(n, -6.123233995736766e-17, fma(n, -1.5707963267948966, wide));
  auto [r, q] = when_any(is_huge(x), std::pair{near, to_integer(n, 32)}, [&] {
    Angle a = reduce_huge(x);
    return std::pair{a.r, a.q};
  });
  Vec z = r * r;
  Vec p = horner(z, {0.00044815435335728314, -0.0004195642385576023, 0.0012056576101335732, 0.0011158020098471744,
                     0.003709611402543002, 0.008837635239663641, 0.021872910361006564, 0.05396799254511483,
                     0.1333333431903431, 0.3333333332048755});
  Vec t = fma(r * z, p, r);
  Vec odd = ne(q & integer(q, 1), 0);
  // One division for both: t / 1 or -1 / t.
  return to_f32(select(odd, -1, t) / select(odd, t, 1));
}

}  // namespace

Vec sin(Vec x) {
  if (x.f64()) return f64::sin(x);
  return select(eq(x, 0), x, sine(x, 0));
}
Vec cos(Vec x) { return x.f64() ? f64::cos(x) : sine(x, 1); }
Vec tan(Vec x) {
  if (x.f64()) return f64::tan(x);
  return select(eq(x, 0), x, tan_f32(x));
}

}  // namespace lazuli::lowering::math
