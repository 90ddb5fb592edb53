// What every implementation of a matrix product expects of its operands.
#pragma once
#include "ir/error.h"
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Throws TypeError unless out[..., m, n] = a[..., m, k] x b[..., k, n] has a meaning.
inline void check_matmul_operands(const Layout& a, const Layout& b, const Layout& out) {
  const size_t rank = out.shape.size();
  bool fits = rank >= 2 && a.shape.size() == rank && b.shape.size() == rank && a.shape[rank - 1] == b.shape[rank - 2] &&
              a.shape[rank - 2] == out.shape[rank - 2] && b.shape[rank - 1] == out.shape[rank - 1];
  for (size_t d = 0; fits && d + 2 < rank; ++d) fits = a.shape[d] == out.shape[d] && b.shape[d] == out.shape[d];
  if (!fits) throw TypeError("matmul: the operands' shapes do not fit");
  if (a.dtype != b.dtype) throw TypeError("matmul: the operands' element types differ");
}

}  // namespace lazuli::lowering
