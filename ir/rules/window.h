// The geometry of pooling windows, shared by shape rules and interpreter.
#pragma once
#include <algorithm>
#include "ir/graph.h"

namespace lazuli::ir {

// One spatial dimension of a pooling window.
struct Window {
  Size kernel, stride, padding, dilation;

  Size positions(Size size, bool ceil_mode) const {
    Size span = size + 2 * padding - dilation * (kernel - 1) - 1;
    const Size rounded = span + (ceil_mode ? stride - 1 : Size(0));
    Size n = rounded / stride + (rounded % stride < 0 ? 0 : 1);  // rounds down, below zero too
    // The last window has to start inside the input or the padding before it.
    if (ceil_mode && (n - 1) * stride >= size + padding) --n;
    return n;
  }
};
inline Window max_window(const Attrs& a, int d) { return {a.list(0)[d], a.list(1)[d], a.list(2)[d], a.list(3)[d]}; }
inline Window avg_window(const Attrs& a, int d) { return {a.list(0)[d], a.list(1)[d], a.list(2)[d], 1}; }

}  // namespace lazuli::ir
