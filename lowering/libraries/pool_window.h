// What the pooling routines share: planes, and where windows and input overlap.
#pragma once
#include <algorithm>
#include "lowering/libraries/pooling.h"
#include "ir/error.h"

namespace lazuli::lowering {

// A [N, C, H, W] operand; a missing N has size 1.
struct Planes {
  int64_t n, c, h, w, sn, sc, sh, sw;
  explicit Planes(const Layout& l) {
    const size_t r = l.shape.size();
    if (r != 3 && r != 4) throw TypeError("pooling takes three or four dimensions");
    n = r == 4 ? l.shape[0] : 1, sn = r == 4 ? l.strides[0] : 0;
    c = l.shape[r - 3], h = l.shape[r - 2], w = l.shape[r - 1];
    sc = l.strides[r - 3], sh = l.strides[r - 2], sw = l.strides[r - 1];
  }
  int64_t at(int64_t in, int64_t ic, int64_t ih, int64_t iw) const { return in * sn + ic * sc + ih * sh + iw * sw; }
  bool channels_last() const { return sc == 1 && c > 1; }
};

// One spatial dimension of the windows.
struct Windows {
  int64_t kernel, stride, padding, dilation, input, output;

  int64_t input_at(int64_t o, int64_t k) const { return o * stride - padding + k * dilation; }
  bool inside(int64_t i) const { return i >= 0 && i < input; }
  // The first position of window `o` that lies inside the input.
  int64_t first(int64_t o) const {
    const int64_t start = input_at(o, 0);
    return start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
  }
  // Outputs [begin, end) whose window's k-th position lies inside the input.
  int64_t begin(int64_t k) const {
    const int64_t offset = k * dilation - padding;
    return offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  }
  int64_t end(int64_t k) const {
    const int64_t room = input - (k * dilation - padding);
    return room <= 0 ? 0 : std::min(output, (room + stride - 1) / stride);
  }
  // Outputs [first_reader, last_reader] are those whose undilated window may hold input `i`.
  int64_t first_reader(int64_t i) const {
    const int64_t low = i + padding - (kernel - 1) * dilation;
    return low <= 0 ? 0 : (low + stride - 1) / stride;
  }
  int64_t last_reader(int64_t i) const { return std::min(output - 1, (i + padding) / stride); }
};

inline Windows windows(const PoolParams& p, size_t d, int64_t input, int64_t output) {
  return {p.kernel[d], p.stride[d], p.padding[d], p.dilation[d], input, output};
}

}  // namespace lazuli::lowering
