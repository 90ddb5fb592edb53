// The inner loop of a product with numbers of 4 bits.
#pragma once
#include <cstdint>
#include "lowering/instruction_sets/widen.h"

namespace lazuli::lowering {

// A part of the matrix: `depth` times some bytes side by side, `stride` bytes apart. The low half of byte i belongs to
// one row of the matrix, the high half to another. Each has a scale and a zero, float32, for each group of numbers.
struct Int4Strip {
  const uint8_t* bytes;
  int64_t stride, depth, group;
  // Of low halves, then of high ones, [group number][scale, zero][byte].
  const float* factors;
};

// Vectors of bytes whose numbers are multiplied at a time by M rows: as many sums as there are registers for.
template <InstructionSet set, int64_t M>
inline constexpr int64_t kInt4Vectors = kRegisterBlock<set>.vector_bytes == 64 ? 2
                                        : M == 1                               ? 4
                                        : M == 2                               ? 2
                                                                               : 1;

// sums[i][0 or 1][byte]: M rows of x, `x_stride` apart, times V vectors of low halves and of high ones. `totals` has of
// each row and group the sum of x, M rows that are `totals_stride` apart. The sum of x times (q - 8) * scale + zero
// over a group is taken as scale * (sum of x * q - 8 * sum of x) + zero * (sum of x).
template <InstructionSet>
struct Int4Kernel;
#define LAZULI_INT4_KERNEL(set, target)                                                                               \
  template <>                                                                                                         \
  struct Int4Kernel<set> {                                                                                            \
    static constexpr int64_t kLanes = kRegisterBlock<set>.vector_bytes / 4;                                           \
    typedef float Vector __attribute__((vector_size(kLanes * 4)));                                                    \
    typedef float Loose __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));                              \
    typedef int32_t Word __attribute__((vector_size(kLanes * 4)));                                                    \
                                                                                                                      \
    template <int64_t M, int64_t V>                                                                                   \
    target static void run(const float* x, int64_t x_stride, const float* totals, int64_t totals_stride,              \
                           const Int4Strip& strip, float* sums) {                                                     \
      constexpr int64_t kBytes = V * kLanes, kAhead = 2048;                                                           \
      Vector whole[M][2][V];                                                                                          \
      _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) _Pragma("GCC unroll 2") for (int64_t h = 0; h < 2; ++h) \
          _Pragma("GCC unroll 4") for (int64_t v = 0; v < V; ++v) whole[i][h][v] = Vector{};                          \
      const uint8_t* p = strip.bytes;                                                                                 \
      const float* factors = strip.factors;                                                                           \
      for (int64_t k = 0; k < strip.depth; k += strip.group, factors += 4 * kBytes) {                                 \
        Vector s[M][2][V];                                                                                            \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i)                                                       \
            _Pragma("GCC unroll 2") for (int64_t h = 0; h < 2; ++h)                                                   \
                _Pragma("GCC unroll 4") for (int64_t v = 0; v < V; ++v) s[i][h][v] = Vector{};                        \
        for (int64_t l = k; l < k + strip.group; ++l, p += strip.stride) {                                            \
          __builtin_prefetch(p + kAhead);                                                                             \
          _Pragma("GCC unroll 4") for (int64_t v = 0; v < V; ++v) {                                                   \
            Word both;                                                                                                \
            Widen<set>::run(p + v * kLanes, both);                                                                    \
            const Vector low = __builtin_convertvector(both & 15, Vector);                                            \
            const Vector high = __builtin_convertvector(both >> 4, Vector);                                           \
            _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) {                                                 \
              s[i][0][v] += x[i * x_stride + l] * low;                                                                \
              s[i][1][v] += x[i * x_stride + l] * high;                                                               \
            }                                                                                                         \
          }                                                                                                           \
        }                                                                                                             \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) {                                                     \
          const float total = totals[i * totals_stride + k / strip.group];                                            \
          _Pragma("GCC unroll 2") for (int64_t h = 0; h < 2; ++h)                                                     \
              _Pragma("GCC unroll 4") for (int64_t v = 0; v < V; ++v) {                                               \
            const float* f = factors + h * 2 * kBytes + v * kLanes;                                                   \
            whole[i][h][v] += (s[i][h][v] - 8 * total) * *reinterpret_cast<const Loose*>(f) +                         \
                              total * *reinterpret_cast<const Loose*>(f + kBytes);                                    \
          }                                                                                                           \
        }                                                                                                             \
      }                                                                                                               \
      _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) _Pragma("GCC unroll 2") for (int64_t h = 0; h < 2; ++h) \
              _Pragma("GCC unroll 4") for (int64_t v = 0; v < V; ++v) *                                               \
          reinterpret_cast<Loose*>(sums + (i * 2 + h) * kBytes + v * kLanes) = whole[i][h][v];                        \
    }                                                                                                                 \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_INT4_KERNEL(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_INT4_KERNEL

}  // namespace lazuli::lowering
