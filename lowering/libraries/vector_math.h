// Functions that the compiler vectorizes: no branches, no calls. For loops that run_for_host compiles.
// Their results are within a few units in the last place, over the whole range and with nan and infinities.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {

// Where exp has gone to zero, and to infinity, and where tanh of the half has gone to one. They are not known to the
// compiler, which would else compute a vector three times: for arguments below, between and above.
template <class C>
struct ExpBounds {
  C least, most, one;
};
extern const ExpBounds<float> kExpBoundsF32;
extern const ExpBounds<double> kExpBoundsF64;

template <class C>
struct Exponential;
template <>
struct Exponential<float> {
  using Bits = uint32_t;
  // Adding it rounds to an integer, which then is the sum's low bits.
  static const ExpBounds<float>& bounds() { return kExpBoundsF32; }
  static constexpr float kShift = 12582912.0f;
  static constexpr int kFraction = 23;
  static constexpr Bits kBias = 127;
  // ln2 in two parts: the first has so few digits that its products are exact without fused steps.
  static constexpr float kLn2 = 0.693359375f, kRest = -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 for |r| <= ln2 / 2 (tools/fit), of the highest power first.
  static constexpr float kSeries[] = {0.0001994427148019895f, 0.0013932723086327314f, 0.008333208039402962f,
                                      0.04166648909449577f,   0.1666666716337204f,    0.5f};
};
template <>
struct Exponential<double> {
  using Bits = uint64_t;
  static const ExpBounds<double>& bounds() { return kExpBoundsF64; }
  static constexpr double kShift = 6755399441055744.0;
  static constexpr int kFraction = 52;
  static constexpr Bits kBias = 1023;
  static constexpr double kLn2 = 0.693147180369123816490, kRest = 1.90821492927058770002e-10;
  static constexpr double kSeries[] = {1 / 6227020800.0, 1 / 479001600.0, 1 / 39916800.0, 1 / 3628800.0,
                                       1 / 362880.0,     1 / 40320.0,     1 / 5040.0,     1 / 720.0,
                                       1 / 120.0,        1 / 24.0,        1 / 6.0,        0.5};
};

// x held between low and high; nan stays.
template <class C>
LAZULI_INLINE C held_between(C x, C low, C high) {
  const C least = x < low ? low : x;
  return least > high ? high : least;
}

// 2^n of an integral n, in the range of normal numbers.
template <class C>
LAZULI_INLINE C power_of_two(C n) {
  using E = Exponential<C>;
  return std::bit_cast<C>((std::bit_cast<typename E::Bits>(n + E::kShift) + E::kBias) << E::kFraction);
}

// x = n ln2 + r, and exp(r) - 1 (Cody and Waite, Software Manual for the Elementary Functions, 1980, chapter 6).
template <class C>
struct Reduced {
  C n, less_one;
};
template <class C>
LAZULI_INLINE Reduced<C> reduced(C x) {
  using E = Exponential<C>;
  const C n = (x * C(1.4426950408889634074) + E::kShift) - E::kShift;
  const C r = (x - n * E::kLn2) - n * E::kRest;
  C p = E::kSeries[0];
  for (size_t i = 1; i < std::size(E::kSeries); ++i) p = p * r + E::kSeries[i];
  return {n, r * r * p + r};
}

template <class C>
LAZULI_INLINE C vector_exp(C x) {
  using E = Exponential<C>;
  const Reduced<C> e = reduced(held_between(x, E::bounds().least, E::bounds().most));
  // 2^n as two factors, so that overflow and gradual underflow come out right.
  const C half = (e.n * C(0.5) + E::kShift) - E::kShift;
  return (1 + e.less_one) * power_of_two(half) * power_of_two(e.n - half);
}

template <class C>
LAZULI_INLINE C vector_sigmoid(C x) {
  return 1 / (1 + vector_exp(-x));
}

// By exp(2 |x|) - 1, which loses no digits near 0.
template <class C>
LAZULI_INLINE C vector_tanh(C x) {
  const C size = 2 * std::abs(x), one = Exponential<C>::bounds().one;
  const Reduced<C> e = reduced(size > one ? one : size);
  const C power = power_of_two(e.n), less_one = power * e.less_one + (power - 1);
  return std::copysign(less_one / (less_one + 2), x);
}

// x + x P(x^2) near 0, else 1 - exp(P(|x|)), P fitted to log(erfc) (tools/fit). Of float64 it is the library's.
template <class C>
LAZULI_INLINE C vector_erf(C x) {
  if constexpr (std::is_same_v<C, double>) {
    return std::erf(x);
  } else {
    constexpr float kNear[] = {7.965175609569997e-05f, -0.0008043123525567353f, 0.005191911943256855f,
                               -0.026855582371354103f, 0.11283624172210693f,    -0.3761262893676758f,
                               0.12837916612625122f};
    constexpr float kFar[] = {-5.235590947449964e-07f, -1.4297320376499556e-05f, 0.0003966608492191881f,
                              -0.004053422715514898f,  0.024895235896110535f,    -0.10801202058792114f,
                              -0.6335434317588806f,    -1.1294341087341309f,     0.00016039807815104723f};
    const float a = std::abs(x), held = a > 4 ? 4 : a, z = x * x;  // erf(4) rounds to 1; nan stays
    float near = kNear[0], far = kFar[0];
    for (size_t i = 1; i < std::size(kNear); ++i) near = near * z + kNear[i];
    for (size_t i = 1; i < std::size(kFar); ++i) far = far * held + kFar[i];
    return a < 0.92f ? x * near + x : std::copysign(1 - vector_exp(far), x);
  }
}

}  // namespace lazuli::lowering
