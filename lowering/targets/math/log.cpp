// log, log1p and log2: x = 2^e m with sqrt(1/2) <= m < sqrt(2), and a polynomial in f = m - 1 (tools/fit). The
// reduction by integer arithmetic on the bits and log1p's correction term follow FreeBSD's msun (Sun Microsystems).
#include <cmath>

#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math {
namespace {

constexpr double kLn2High = 0.693359375, kLn2Low = -2.12194440054690583e-4;  // High has 10 bits: e times it is exact

struct Split {
  Vec e, f;  // x = 2^e (1 + f)
};

Split split(Vec x) {
  constexpr int64_t kSqrtHalf = 0x3f3504f3;
  Vec i = bits_of(x);
  i = i - integer(i, kSqrtHalf);
  Vec m = from_bits((i & integer(i, 0x7fffff)) + integer(i, kSqrtHalf));
  return {to_floating(ashr(i, 23), x.element()), m - 1};
}

// As split, for subnormal x too.
Split split_any(Vec x) {
  Vec tiny = lt(x, 0x1p-126);
  Split s = split(select(tiny, x * 0x1p23, x));
  return {select(tiny, s.e - 23, s.e), s.f};
}

// log(1 + f) + e ln2 as f plus smaller terms; `low` is added to the smallest.
Vec log_of(Vec e, Vec f) {
  Vec p = horner(
      f, {0.06750711053609848, -0.11671566963195801, 0.11883731186389923, -0.12406045943498611, 0.1422031670808792,
          -0.16667994856834412, 0.20002073049545288, -0.25000008940696716, 0.3333331346511841});
  Vec y = f * f * fma(f, p, -0.5);
  return fma(e, kLn2High, f + fma(e, kLn2Low, y));
}

// Zero, negative numbers, infinity and NaN; `x` is what the logarithm is taken of.
Vec with_edges(Vec x, Vec y) {
  y = select(gt(x, 0), y, select(eq(x, 0), -INFINITY, number(x, NAN)));
  return select(eq(x, INFINITY), x, y);
}

}  // namespace

Vec log(Vec x) {
  if (x.f64()) return f64::log(x);
  auto [e, f] = split_any(x);
  return with_edges(x, log_of(e, f));
}

Vec log2(Vec x) {
  if (x.f64()) return f64::log2(x);
  auto [e, f] = split_any(x);
  Vec p =
      horner(f, {-0.11094936728477478, 0.1874033510684967, -0.19129303097724915, 0.20443744957447052,
                 -0.2395712286233902, 0.288573682308197, -0.3606986403465271, 0.4808981716632843, -0.7213473320007324});
  Vec small = fma(f * f, p, f * 1.925963033500011e-08);
  return with_edges(x, e + fma(f, 1.4426950216293335, small));
}

// log(u) for u = 1 + x, plus what the rounding of u lost.
Vec log1p(Vec x) {
  if (x.f64()) return f64::log1p(x);
  Vec u = x + 1, back = u - x;
  Vec lost = (x - (u - back)) + (1 - back);  // u + lost = 1 + x exactly (Knuth's TwoSum)
  auto [e, f] = split(u);
  // 2^-e, as far as it is a normal number: beyond, what was lost does not count.
  Vec scale = from_bits(shl(integer(bits_of(u), 127) - to_integer(min_or_second(e, number(e, 126)), 32), 23));
  Vec y = with_edges(u, log_of(e, fma(lost, scale, f)));
  return select(eq(x, 0), x, select(eq(x, INFINITY), x, y));
}

// log(m) = 2 atanh(s), s = (m - 1) / (m + 1).
Vec log2_wide(Vec x) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  Vec i = bits_of(x);
  i = i - integer(i, kSqrtHalf);
  Vec m = from_bits((i & integer(i, 0xfffffffffffff)) + integer(i, kSqrtHalf));
  Vec e = to_floating(ashr(i, 52), x.element());
  Vec s = (m - 1) / (m + 1), z = s * s;
  Vec p =
      horner(z, {0.19584697285346117, 0.2217615278845714, 0.28572109967514314, 0.3999999561469665, 0.6666666667582043});
  return fma(fma(s * z, p, s * 2), 1.4426950408889634074, e);
}

}  // namespace lazuli::lowering::math
