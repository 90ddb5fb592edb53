#include "lowering/libraries/transpose.h"
#if defined(__x86_64__)
#include <immintrin.h>
// GCC 12 warns of its own header's undefined vectors.
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

namespace lazuli::lowering {

#if defined(__x86_64__)
LAZULI_TARGET_AVX512 void transpose_16x16(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  __m512 r[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = _mm512_loadu_ps(from + i * from_stride);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  // r[4 g + j]: in its 128-bit part p, column 4 p + j of rows 4 g to 4 g + 3.
#pragma GCC unroll 16
  for (int g = 0; g < 16; g += 4) {
    const __m512d a = _mm512_castps_pd(t[g]), b = _mm512_castps_pd(t[g + 1]);
    const __m512d c = _mm512_castps_pd(t[g + 2]), d = _mm512_castps_pd(t[g + 3]);
    r[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 16
  for (int j = 0; j < 4; ++j) {
    const __m512 even_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);
    const __m512 odd_low = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);
    const __m512 even_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);
    const __m512 odd_high = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);
    _mm512_storeu_ps(to + j * to_stride, _mm512_shuffle_f32x4(even_low, even_high, 0x88));
    _mm512_storeu_ps(to + (4 + j) * to_stride, _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
    _mm512_storeu_ps(to + (8 + j) * to_stride, _mm512_shuffle_f32x4(even_low, even_high, 0xdd));
    _mm512_storeu_ps(to + (12 + j) * to_stride, _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd));
  }
}
#else
void transpose_16x16(const float* from, int64_t from_stride, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < 16; ++i)
    for (int64_t j = 0; j < 16; ++j) to[i * to_stride + j] = from[j * from_stride + i];
}
#endif

}  // namespace lazuli::lowering
