// The inner loops of a product of a few rows: each reads a part of the matrix once, at the memory's speed.
//
// A processor keeps up with its memory only if it reads few places at a time, each far ahead: so a column that lies
// side by side is read alone, with several sums along it, and rows that lie side by side are read in blocks of some
// cache lines, whose sums stay in registers all the way down.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include "lowering/instruction_sets/widen.h"
#include "lowering/libraries/elements.h"

namespace lazuli::lowering {

// How far ahead is fetched: in bytes along a column, and in rows down a block.
inline constexpr int64_t kBytesAhead = 4096, kRowsAhead = 16;
inline constexpr int64_t kCacheLine = 64;

// Vectors of a block of M rows' sums.
template <InstructionSet set, int64_t M>
inline constexpr int64_t kBlockVectors = kRegisterBlock<set>.vector_bytes == 64 && M > 1 ? 16 / M : 8 / M;

// Spelled once for each target: GCC splits vector types for the function that they stand in. M rows of a, `a_stride`
// apart, of k float32 each; b of float32 or bfloat16. Row i of the sums begins at i * sums_stride.
//   columns: n columns of b, `b_stride` apart, each side by side in memory.
//   block: V vectors' columns of b, whose k rows are `b_stride` apart.
template <InstructionSet>
struct RowKernels;
#define LAZULI_LOAD_VECTOR(set, to, from)                           \
  if constexpr (std::is_same_v<T, float>) {                         \
    to = *reinterpret_cast<const Loose*>(from);                     \
  } else {                                                          \
    typename Widen<set>::Word bits;                                 \
    Widen<set>::run(reinterpret_cast<const uint16_t*>(from), bits); \
    to = reinterpret_cast<Vector>(bits << 16);                      \
  }
#define LAZULI_ROW_KERNELS(set, target)                                                                               \
  template <>                                                                                                         \
  struct RowKernels<set> {                                                                                            \
    static constexpr int64_t kBytes = kRegisterBlock<set>.vector_bytes, kLanes = kBytes / 4;                          \
    typedef float Vector __attribute__((vector_size(kBytes)));                                                        \
    typedef float Loose __attribute__((vector_size(kBytes), aligned(4), may_alias));                                  \
    typedef float Quad __attribute__((vector_size(16), may_alias));                                                   \
                                                                                                                      \
    template <int64_t M, class T>                                                                                     \
    target static void columns(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t k, int64_t n,  \
                               float* sums, int64_t sums_stride) {                                                    \
      constexpr int64_t U = 8 / M, kWhole = U * kLanes, kLine = kCacheLine / sizeof(T);                               \
      for (int64_t j = 0; j < n; ++j) {                                                                               \
        const T* p = b + j * b_stride;                                                                                \
        Vector s[M][U];                                                                                               \
        _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i)                                                       \
            _Pragma("GCC unroll 8") for (int64_t u = 0; u < U; ++u) s[i][u] = Vector{};                               \
        int64_t c = 0;                                                                                                \
        for (; c + kWhole <= k; c += kWhole) _Pragma("GCC unroll 8") for (int64_t u = 0; u < U; ++u) {                \
            const int64_t at = c + u * kLanes;                                                                        \
            if (u * kLanes % kLine == 0) __builtin_prefetch(p + at + kBytesAhead / static_cast<int64_t>(sizeof(T)));  \
            Vector y;                                                                                                 \
            LAZULI_LOAD_VECTOR(set, y, p + at);                                                                       \
            _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) s[i][u] +=                                        \
                *reinterpret_cast<const Loose*>(a + i * a_stride + at) * y;                                           \
          }                                                                                                           \
        for (; c + kLanes <= k; c += kLanes) {                                                                        \
          Vector y;                                                                                                   \
          LAZULI_LOAD_VECTOR(set, y, p + c);                                                                          \
          _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) s[i][0] +=                                          \
              *reinterpret_cast<const Loose*>(a + i * a_stride + c) * y;                                              \
        }                                                                                                             \
        _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) {                                                     \
          _Pragma("GCC unroll 8") for (int64_t u = 1; u < U; ++u) s[i][0] += s[i][u];                                 \
          const Quad* parts = reinterpret_cast<const Quad*>(&s[i][0]);                                                \
          Quad q = parts[0];                                                                                          \
          _Pragma("GCC unroll 4") for (int64_t l = 1; l < kLanes / 4; ++l) q += parts[l];                             \
          float sum = (q[0] + q[2]) + (q[1] + q[3]);                                                                  \
          for (int64_t rest = c; rest < k; ++rest) sum += a[i * a_stride + rest] * static_cast<float>(p[rest]);       \
          sums[i * sums_stride + j] = sum;                                                                            \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
                                                                                                                      \
    template <int64_t M, int64_t V, class T>                                                                          \
    target static void block(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t k, float* sums,  \
                             int64_t sums_stride) {                                                                   \
      constexpr int64_t kLine = kCacheLine / sizeof(T);                                                               \
      Vector s[M][V];                                                                                                 \
      _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) _Pragma("GCC unroll 8") for (int64_t v = 0; v < V; ++v) \
          s[i][v] = Vector{};                                                                                         \
      for (int64_t r = 0; r < k; ++r) {                                                                               \
        const T* p = b + r * b_stride;                                                                                \
        _Pragma("GCC unroll 8") for (int64_t v = 0; v < V; ++v) {                                                     \
          if (v * kLanes % kLine == 0) __builtin_prefetch(p + kRowsAhead * b_stride + v * kLanes);                    \
          Vector y;                                                                                                   \
          LAZULI_LOAD_VECTOR(set, y, p + v * kLanes);                                                                 \
          _Pragma("GCC unroll 4") for (int64_t i = 0; i < M; ++i) s[i][v] += a[i * a_stride + r] * y;                 \
        }                                                                                                             \
      }                                                                                                               \
      _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i)                                                         \
              _Pragma("GCC unroll 8") for (int64_t v = 0; v < V; ++v) *                                               \
          reinterpret_cast<Loose*>(sums + i * sums_stride + v * kLanes) = s[i][v];                                    \
    }                                                                                                                 \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_ROW_KERNELS(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_ROW_KERNELS
#undef LAZULI_LOAD_VECTOR

}  // namespace lazuli::lowering
