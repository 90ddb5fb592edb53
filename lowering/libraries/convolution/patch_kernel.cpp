#include "lowering/libraries/convolution/patch_kernel.h"
#include "lowering/libraries/product/register_block.h"

namespace lazuli::lowering {
namespace {

// Spelled once for each target: GCC splits vector types for the function that they stand in.
#define LAZULI_PATCH_KERNEL(name, target, shape)                                                         \
  template <int kVectors>                                                                                \
  target void name(const PatchRows& rows, const float* columns, int64_t stride, const PatchSums& sums) { \
    typedef float Vector __attribute__((vector_size(shape.vector_bytes), aligned(4)));                   \
    constexpr int64_t kRows = shape.rows, kLanes = shape.vector_bytes / 4;                               \
    const int64_t row = rows.row, depth = rows.depth, length = rows.length;                              \
    Vector s[kRows][kVectors];                                                                           \
    _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                       \
      _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) s[r][v] = Vector{};                     \
      __builtin_prefetch(sums.data + r * sums.stride, 1);                                                \
    }                                                                                                    \
    const float* b = columns;                                                                            \
    for (const int64_t segment : rows.segments) {                                                        \
      const float* a[kRows / 3];                                                                         \
      for (int64_t r = 0; r < kRows / 3; ++r) a[r] = rows.data + segment + 3 * r * row;                  \
      _Pragma("GCC unroll 4") for (int64_t k = 0; k < length; ++k, b += stride) {                        \
        Vector y[kVectors];                                                                              \
        _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) y[v] =                                \
            *reinterpret_cast<const Vector*>(b + v * kLanes);                                            \
        _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                   \
          const float x = a[r / 3][r % 3 * row];                                                         \
          _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) s[r][v] += x * y[v];                \
        }                                                                                                \
        _Pragma("GCC unroll 4") for (int64_t r = 0; r < kRows / 3; ++r) a[r] += depth;                   \
      }                                                                                                  \
    }                                                                                                    \
    _Pragma("GCC unroll 12") for (int64_t r = 0; r < kRows; ++r) {                                       \
      Vector* to = reinterpret_cast<Vector*>(sums.data + r * sums.stride);                               \
      _Pragma("GCC unroll 2") for (int v = 0; v < kVectors; ++v) {                                       \
        if (!sums.is_zero) s[r][v] += to[v];                                                             \
        to[v] = s[r][v];                                                                                 \
      }                                                                                                  \
    }                                                                                                    \
  }
LAZULI_PATCH_KERNEL(patch_kernel_baseline, , kBaselineBlock)
LAZULI_PATCH_KERNEL(patch_kernel_avx2, LAZULI_TARGET_AVX2, kAvx2Block)
LAZULI_PATCH_KERNEL(patch_kernel_avx512, LAZULI_TARGET_AVX512, kAvx512Block)
#undef LAZULI_PATCH_KERNEL

}  // namespace

void patch_kernel(const PatchRows& rows, const PatchColumns& columns, const PatchSums& sums) {
  const bool two = columns.vectors == 2;
  const auto run = [&](auto* one_vector, auto* two_vectors) {
    (two ? two_vectors : one_vector)(rows, columns.data, columns.stride, sums);
  };
  switch (host_features()) {
    case Features::Avx512:
      return run(&patch_kernel_avx512<1>, &patch_kernel_avx512<2>);
    case Features::Avx2:
      return run(&patch_kernel_avx2<1>, &patch_kernel_avx2<2>);
    case Features::Baseline:
      return run(&patch_kernel_baseline<1>, &patch_kernel_baseline<2>);
  }
}

}  // namespace lazuli::lowering
