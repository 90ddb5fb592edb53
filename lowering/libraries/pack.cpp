#include "lowering/libraries/pack.h"
#include <immintrin.h>

namespace lazuli::lowering {

LAZULI_TARGET_AVX2 void transpose_rows(Matrix<float> from, int64_t size, int64_t depth, int64_t width, float* to) {
  for (int64_t k = 0; k < depth; k += 8)
    for (int64_t first = 0; first < width; first += 8) {
      __m256 x[8], y[8];
      for (int i = 0; i < 8; ++i)
        x[i] = _mm256_loadu_ps(from.data + std::min<int64_t>(first + i, size - 1) * from.stride + k);
      for (int i = 0; i < 4; ++i) {
        y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
      }
      for (int half = 0; half < 8; half += 4)
        for (int i = 0; i < 2; ++i) {
          x[half + 2 * i] = _mm256_shuffle_ps(y[half + i], y[half + 2 + i], 0x44);
          x[half + 2 * i + 1] = _mm256_shuffle_ps(y[half + i], y[half + 2 + i], 0xee);
        }
      for (int i = 0; i < 4; ++i)
        _mm256_storeu_ps(to + (k + i) * width + first, _mm256_permute2f128_ps(x[i], x[4 + i], 0x20));
      for (int i = 0; i < 4; ++i)
        _mm256_storeu_ps(to + (k + 4 + i) * width + first, _mm256_permute2f128_ps(x[i], x[4 + i], 0x31));
    }
}

}  // namespace lazuli::lowering
