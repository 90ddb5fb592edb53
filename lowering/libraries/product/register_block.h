// The block of sums that a micro-kernel holds in the host's registers: some rows, two vectors wide.
#pragma once
#include <cstdint>
#include "lowering/libraries/clones.h"

namespace lazuli::lowering {

struct RegisterBlock {
  int64_t rows, vector_bytes;
  template <class C>
  int64_t lanes() const {
    return vector_bytes / static_cast<int64_t>(sizeof(C));
  }
  template <class C>
  int64_t columns() const {
    return 2 * lanes<C>();
  }
};
inline constexpr RegisterBlock kBaselineBlock{6, 16}, kAvx2Block{6, 32}, kAvx512Block{12, 64};

inline RegisterBlock register_block() {
  switch (host_features()) {
    case Features::Avx512:
      return kAvx512Block;
    case Features::Avx2:
      return kAvx2Block;
    case Features::Baseline:
      break;
  }
  return kBaselineBlock;
}

inline int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

}  // namespace lazuli::lowering
