#include "lowering/libraries/invalid_flag.h"
#include <immintrin.h>

namespace lazuli::lowering {

bool is_invalid_raised() {
  unsigned flags = 0;
#pragma omp parallel reduction(| : flags)
  flags |= _mm_getcsr() & _MM_EXCEPT_INVALID;
  return flags != 0;
}

void clear_invalid() {
#pragma omp parallel
  _mm_setcsr(_mm_getcsr() & ~static_cast<unsigned>(_MM_EXCEPT_INVALID));
}

}  // namespace lazuli::lowering
