// The spatial dimensions of an image, one to three of them, as three: depth, height and width.
#pragma once
#include <array>
#include <cstdint>
#include "ir/type.h"

namespace lazuli::lowering {

using Three = std::array<int64_t, 3>;

// The last numbers of `values`, but for the first `skip`, right-aligned into three, with `fill` before them.
inline Three three(const ir::Dims& values, size_t skip, int64_t fill) {
  Three out{fill, fill, fill};
  const size_t n = values.size() - skip;
  for (size_t d = 0; d < n; ++d) out[3 - n + d] = values[skip + d];
  return out;
}

}  // namespace lazuli::lowering
