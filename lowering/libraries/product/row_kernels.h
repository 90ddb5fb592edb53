// The inner loops of a product of a few rows: each reads a part of the matrix once, at the memory's speed.
//
// A processor keeps up with its memory only if it reads few places at a time, each far ahead. What is fetched so goes
// to the second cache, which can wait for more lines than the first. So columns that lie side by side are read one
// after the other, with several sums along each. (For two rows or more it is a few columns at a time: the rows are read
// again for each.) Rows that lie side by side are read in blocks of some cache lines, whose sums stay in registers.
#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include "lowering/instruction_sets/widen.h"
#include "lowering/libraries/elements.h"

namespace lazuli::lowering {

// How far ahead is fetched: in bytes along a column, and in rows down a block.
inline constexpr int64_t kBytesAhead = 8192, kRowsAhead = 16;
// Columns that are read together are fetched ahead by as many columns, unless those are more bytes than this.
inline constexpr int64_t kMostBytesAhead = 128 << 10;
inline constexpr int64_t kCacheLine = 64;

// Vectors of a block of M rows' sums.
template <InstructionSet set, int64_t M>
inline constexpr int64_t kBlockVectors = kRegisterBlock<set>.vector_bytes == 64 && M > 1 ? 16 / M : 8 / M;
// Rows at most: registers hold their sums. (With more, or with more than four on AVX2, a BLAS is as fast.)
template <InstructionSet set>
inline constexpr int64_t kMostRows = kRegisterBlock<set>.vector_bytes == 64 ? 8 : 4;
// Columns that are read together, for M rows, and vectors along each.
template <InstructionSet set, int64_t M>
inline constexpr int64_t kColumns = M == 1 ? 1 : kMostRows<set> / (M > 4 ? 4 : 2);
template <int64_t M>
inline constexpr int64_t kColumnVectors = M == 1   ? 8
                                          : M == 2 ? 2
                                                   : 1;

// Spelled once for each target: GCC splits vector types for the function that they stand in. M rows of a, `a_stride`
// apart, of k float32 each; b of float32 or bfloat16. Row i of the sums begins at i * sums_stride.
//   columns: n columns of b, `b_stride` apart, each side by side in memory. add_columns: C of them.
//   halves: of both vectors elements 0 and 2, and 1 and 3, added.
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
    typedef int32_t Four __attribute__((vector_size(16)));                                                            \
                                                                                                                      \
    template <int64_t M, class T>                                                                                     \
    target static void columns(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t k, int64_t n,  \
                               float* sums, int64_t sums_stride) {                                                    \
      constexpr int64_t C = kColumns<set, M>;                                                                         \
      const int64_t whole = n / C * C;                                                                                \
      for (int64_t j = 0; j < whole; j += C)                                                                          \
        add_columns<M, C>(a, a_stride, b + j * b_stride, b_stride, k, sums + j, sums_stride);                         \
      for (int64_t j = whole; j < n; ++j)                                                                             \
        add_columns<M, 1>(a, a_stride, b + j * b_stride, b_stride, k, sums + j, sums_stride);                         \
    }                                                                                                                 \
                                                                                                                      \
    template <int64_t M, int64_t C, class T>                                                                          \
    target static void add_columns(const float* a, int64_t a_stride, const T* b, int64_t b_stride, int64_t k,         \
                                   float* sums, int64_t sums_stride) {                                                \
      constexpr int64_t U = kColumnVectors<M>, kWhole = U * kLanes, kLine = kCacheLine / sizeof(T);                   \
      constexpr int64_t kNear = kBytesAhead / sizeof(T), kFar = kMostBytesAhead / sizeof(T);                          \
      const int64_t ahead = C == 1 || C * b_stride > kFar ? kNear : C * b_stride;                                     \
      Vector s[M][C][U];                                                                                              \
      _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) \
          _Pragma("GCC unroll 8") for (int64_t u = 0; u < U; ++u) s[i][j][u] = Vector{};                              \
      int64_t c = 0;                                                                                                  \
      for (; c + kWhole <= k; c += kWhole) _Pragma("GCC unroll 8") for (int64_t u = 0; u < U; ++u) {                  \
          const int64_t at = c + u * kLanes;                                                                          \
          Vector y[C];                                                                                                \
          _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) {                                                   \
            const T* p = b + j * b_stride + at;                                                                       \
            if (u * kLanes % kLine == 0) __builtin_prefetch(p + ahead, 0, 2);                                         \
            LAZULI_LOAD_VECTOR(set, y[j], p);                                                                         \
          }                                                                                                           \
          _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) {                                                   \
            const Vector x = *reinterpret_cast<const Loose*>(a + i * a_stride + at);                                  \
            _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) s[i][j][u] += x * y[j];                           \
          }                                                                                                           \
        }                                                                                                             \
      for (; c + kLanes <= k; c += kLanes) _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) {                  \
          Vector y;                                                                                                   \
          LAZULI_LOAD_VECTOR(set, y, b + j * b_stride + c);                                                           \
          _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) s[i][j][0] +=                                       \
              *reinterpret_cast<const Loose*>(a + i * a_stride + c) * y;                                              \
        }                                                                                                             \
      _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) {                                                       \
        Quad q[4] = {};                                                                                               \
        _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) {                                                     \
          _Pragma("GCC unroll 8") for (int64_t u = 1; u < U; ++u) s[i][j][0] += s[i][j][u];                           \
          const Quad* parts = reinterpret_cast<const Quad*>(&s[i][j][0]);                                             \
          q[j] = parts[0];                                                                                            \
          _Pragma("GCC unroll 4") for (int64_t l = 1; l < kLanes / 4; ++l) q[j] += parts[l];                          \
        }                                                                                                             \
        const Quad low = halves(q[0], q[1]), high = halves(q[2], q[3]);                                               \
        const Quad sum =                                                                                              \
            __builtin_shuffle(low, high, Four{0, 2, 4, 6}) + __builtin_shuffle(low, high, Four{1, 3, 5, 7});          \
        _Pragma("GCC unroll 4") for (int64_t j = 0; j < C; ++j) {                                                     \
          float& to = sums[i * sums_stride + j];                                                                      \
          to = sum[j];                                                                                                \
          for (int64_t rest = c; rest < k; ++rest)                                                                    \
            to += a[i * a_stride + rest] * static_cast<float>(b[j * b_stride + rest]);                                \
        }                                                                                                             \
      }                                                                                                               \
    }                                                                                                                 \
                                                                                                                      \
    target static Quad halves(Quad x, Quad y) {                                                                       \
      return __builtin_shuffle(x, y, Four{0, 1, 4, 5}) + __builtin_shuffle(x, y, Four{2, 3, 6, 7});                   \
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
          if (v * kLanes % kLine == 0) __builtin_prefetch(p + kRowsAhead * b_stride + v * kLanes, 0, 2);              \
          Vector y;                                                                                                   \
          LAZULI_LOAD_VECTOR(set, y, p + v * kLanes);                                                                 \
          _Pragma("GCC unroll 8") for (int64_t i = 0; i < M; ++i) s[i][v] += a[i * a_stride + r] * y;                 \
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
