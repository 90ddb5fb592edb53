#include "lowering/libraries/convolution/depthwise_kernel.h"
#include <algorithm>

namespace lazuli::lowering {
namespace {

// Spelled once for each target: GCC splits vector types for the function that they stand in.
template <InstructionSet>
struct LaneKernels;
#define LAZULI_LANE_KERNELS(set, target)                                                                          \
  template <>                                                                                                     \
  struct LaneKernels<set> {                                                                                       \
    typedef float Vector __attribute__((vector_size(kRegisterBlock<set>.vector_bytes), aligned(4)));              \
    static constexpr int64_t kLanes = kRegisterBlock<set>.vector_bytes / 4;                                       \
    target static Vector load(const float* x) { return *reinterpret_cast<const Vector*>(x); }                     \
    /* kPoints outputs: of so many, sums are enough to hide what a product takes. */                              \
    template <int kPoints>                                                                                        \
    target static void outputs(const LaneRow& r, std::span<const LaneTap> taps, int64_t first) {                  \
      Vector s[kPoints];                                                                                          \
      _Pragma("GCC unroll 8") for (int i = 0; i < kPoints; ++i) s[i] = Vector{};                                  \
      const float* from = r.from + first * r.from_step;                                                           \
      const int64_t step = r.from_step;                                                                           \
      for (const LaneTap& tap : taps) {                                                                           \
        const Vector w = load(r.weights + tap.weight);                                                            \
        const float* x = from + tap.point;                                                                        \
        _Pragma("GCC unroll 8") for (int i = 0; i < kPoints; ++i) s[i] += w * load(x + i * step);                 \
      }                                                                                                           \
      float* to = r.to + first * r.to_step;                                                                       \
      _Pragma("GCC unroll 8") for (int i = 0; i < kPoints; ++i) * reinterpret_cast<Vector*>(to + i * r.to_step) = \
          s[i];                                                                                                   \
    }                                                                                                             \
    target static void row(const LaneRow& r, std::span<const LaneTap> taps) {                                     \
      int64_t i = 0;                                                                                              \
      for (; i + 8 <= r.points; i += 8) outputs<8>(r, taps, i);                                                   \
      if (i + 4 <= r.points) outputs<4>(r, taps, i), i += 4;                                                      \
      if (i + 2 <= r.points) outputs<2>(r, taps, i), i += 2;                                                      \
      if (i < r.points) outputs<1>(r, taps, i);                                                                   \
    }                                                                                                             \
    template <int kRows, int kColumns>                                                                            \
    target static void gradient(const LaneGradient& g, const LaneGrid& grid, float* sums) {                       \
      Vector s[kRows][kColumns];                                                                                  \
      _Pragma("GCC unroll 4") for (int y = 0; y < kRows; ++y)                                                     \
          _Pragma("GCC unroll 8") for (int x = 0; x < kColumns; ++x) s[y][x] = Vector{};                          \
      const float* gy = g.gradient;                                                                               \
      const int64_t column = grid.column, step = g.gradient_step;                                                 \
      for (int64_t line = 0; line < g.rows; ++line) {                                                             \
        const float* from[kRows];                                                                                 \
        for (int y = 0; y < kRows; ++y) from[y] = g.from + line * g.from_row + y * grid.row;                      \
        for (int64_t p = 0; p < g.points; ++p, gy += step) {                                                      \
          const Vector d = load(gy);                                                                              \
          _Pragma("GCC unroll 4") for (int y = 0; y < kRows; ++y) {                                               \
            _Pragma("GCC unroll 8") for (int x = 0; x < kColumns; ++x) s[y][x] += d * load(from[y] + x * column); \
            from[y] += g.from_step;                                                                               \
          }                                                                                                       \
        }                                                                                                         \
      }                                                                                                           \
      _Pragma("GCC unroll 4") for (int y = 0; y < kRows; ++y)                                                     \
              _Pragma("GCC unroll 8") for (int x = 0; x < kColumns; ++x) *                                        \
          reinterpret_cast<Vector*>(sums + (y * grid.columns + x) * grid.sum) += s[y][x];                         \
    }                                                                                                             \
    /* As many rows of kColumns taps as there are registers for. */                                               \
    template <int kColumns>                                                                                       \
    target static void columns(LaneGradient g, const LaneGrid& grid, float* sums) {                               \
      constexpr int kMost = std::min(4, std::max(1, 12 / kColumns));                                              \
      for (int64_t y = 0; y < grid.rows;) {                                                                       \
        const int64_t rows = std::min<int64_t>(kMost, grid.rows - y);                                             \
        switch (rows) {                                                                                           \
          case 4:                                                                                                 \
            gradient<std::min(4, kMost), kColumns>(g, grid, sums);                                                \
            break;                                                                                                \
          case 3:                                                                                                 \
            gradient<std::min(3, kMost), kColumns>(g, grid, sums);                                                \
            break;                                                                                                \
          case 2:                                                                                                 \
            gradient<std::min(2, kMost), kColumns>(g, grid, sums);                                                \
            break;                                                                                                \
          default:                                                                                                \
            gradient<1, kColumns>(g, grid, sums);                                                                 \
        }                                                                                                         \
        y += rows, g.from += rows * grid.row, sums += rows * grid.columns * grid.sum;                             \
      }                                                                                                           \
    }                                                                                                             \
    target static void all(LaneGradient g, const LaneGrid& grid) {                                                \
      for (int64_t x = 0; x < grid.columns;) {                                                                    \
        const int64_t few = std::min<int64_t>(7, grid.columns - x);                                               \
        float* sums = g.sums + x * grid.sum;                                                                      \
        switch (few) {                                                                                            \
          case 7:                                                                                                 \
            columns<7>(g, grid, sums);                                                                            \
            break;                                                                                                \
          case 6:                                                                                                 \
            columns<6>(g, grid, sums);                                                                            \
            break;                                                                                                \
          case 5:                                                                                                 \
            columns<5>(g, grid, sums);                                                                            \
            break;                                                                                                \
          case 4:                                                                                                 \
            columns<4>(g, grid, sums);                                                                            \
            break;                                                                                                \
          case 3:                                                                                                 \
            columns<3>(g, grid, sums);                                                                            \
            break;                                                                                                \
          case 2:                                                                                                 \
            columns<2>(g, grid, sums);                                                                            \
            break;                                                                                                \
          default:                                                                                                \
            columns<1>(g, grid, sums);                                                                            \
        }                                                                                                         \
        x += few, g.from += few * grid.column;                                                                    \
      }                                                                                                           \
    }                                                                                                             \
  };
#define INSTRUCTION_SET(name, target, ...) LAZULI_LANE_KERNELS(InstructionSet::name, target)
#include "lowering/instruction_sets/all.def"
#undef LAZULI_LANE_KERNELS

}  // namespace

void lane_row(const LaneRow& row, std::span<const LaneTap> taps) {
  for_host([&](auto set) { LaneKernels<set()>::row(row, taps); });
}

void lane_gradient(const LaneGradient& g, const LaneGrid& grid) {
  for_host([&](auto set) { LaneKernels<set()>::all(g, grid); });
}

}  // namespace lazuli::lowering
