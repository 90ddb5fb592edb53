#include "lowering/libraries/product/pack.h"
#include <immintrin.h>

namespace lazuli::lowering {

namespace {
// Columns of x become its rows.
LAZULI_TARGET_AVX2 LAZULI_INLINE void transpose(__m256 (&x)[8]) {
  __m256 y[8];
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  __m256 z[8];
  for (int half = 0; half < 8; half += 4)
    for (int i = 0; i < 2; ++i) {
      z[half + 2 * i] = _mm256_shuffle_ps(y[half + i], y[half + 2 + i], 0x44);
      z[half + 2 * i + 1] = _mm256_shuffle_ps(y[half + i], y[half + 2 + i], 0xee);
    }
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm256_permute2f128_ps(z[i], z[4 + i], 0x20);
    x[4 + i] = _mm256_permute2f128_ps(z[i], z[4 + i], 0x31);
  }
}
}  // namespace

LAZULI_TARGET_AVX2 void transpose_rows(Matrix<float> from, int64_t size, int64_t depth, int64_t width, float* to) {
  for (int64_t k = 0; k < depth; k += 8)
    for (int64_t first = 0; first < width; first += 8) {
      __m256 x[8];
      for (int i = 0; i < 8; ++i)
        x[i] = _mm256_loadu_ps(from.data + std::min<int64_t>(first + i, size - 1) * from.stride + k);
      transpose(x);
      for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + (k + i) * width + first, x[i]);
    }
}

LAZULI_TARGET_AVX2 void transpose_columns(const float* from, int64_t width, int64_t columns, float* to,
                                          int64_t stride) {
  for (int64_t first = 0; first < columns; first += 8) {
    __m256 x[8];
    for (int i = 0; i < 8; ++i) x[i] = _mm256_loadu_ps(from + i * width + first);
    transpose(x);
    for (int i = 0; i < std::min<int64_t>(8, columns - first); ++i) _mm256_storeu_ps(to + (first + i) * stride, x[i]);
  }
}

}  // namespace lazuli::lowering
