// A vector of int32 from as many small unsigned numbers, of 8 or 16 bits. Left to it, GCC takes them one by one, or in
// halves.
#pragma once
#include <cstdint>
#include <immintrin.h>
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::lowering {

template <InstructionSet>
struct Widen {
  typedef int32_t Word __attribute__((vector_size(16)));
  template <class T>
  static LAZULI_INLINE void run(const T* p, Word& to) {
    to = Word{p[0], p[1], p[2], p[3]};
  }
};

#if defined(__x86_64__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC's own header has it
template <>
struct Widen<InstructionSet::Avx512> {
  typedef int32_t Word __attribute__((vector_size(64)));
  LAZULI_TARGET_AVX512 static LAZULI_INLINE void run(const uint8_t* p, Word& to) {
    to = reinterpret_cast<Word>(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  LAZULI_TARGET_AVX512 static LAZULI_INLINE void run(const uint16_t* p, Word& to) {
    to = reinterpret_cast<Word>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
};
template <>
struct Widen<InstructionSet::Avx2> {
  typedef int32_t Word __attribute__((vector_size(32)));
  LAZULI_TARGET_AVX2 static LAZULI_INLINE void run(const uint8_t* p, Word& to) {
    to = reinterpret_cast<Word>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
  }
  LAZULI_TARGET_AVX2 static LAZULI_INLINE void run(const uint16_t* p, Word& to) {
    to = reinterpret_cast<Word>(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
};
#pragma GCC diagnostic pop
#endif

}  // namespace lazuli::lowering
