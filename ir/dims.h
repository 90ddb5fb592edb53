// A short list of 64-bit integers: shapes, strides, attributes. Ranks up to six live inline, since
// recording an op must not touch the heap.
#pragma once
#include "ir/inline_vector.h"

namespace lazuli::ir {

using Dims = InlineVector<int64_t, 6>;

inline bool equal(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}
inline int64_t product(std::span<const int64_t> v) {
  int64_t n = 1;
  for (int64_t x : v) n *= x;
  return n;
}
Dims contiguous_strides(std::span<const int64_t> shape);

}  // namespace lazuli::ir
