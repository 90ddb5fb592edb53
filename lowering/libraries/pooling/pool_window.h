// What the pooling routines share: planes, and where windows and input overlap.
#pragma once
#include <algorithm>
#include "ir/error.h"
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/pooling/pooling.h"

namespace lazuli::lowering {

inline constexpr int64_t kChannelBlock = 64;  // channels whose running values are held side by side

// A [..., C, H, W] operand; dimensions that are missing have size 1, and those before C count as one.
struct Planes {
  int64_t n = 1, c = 1, h, w, sn = 0, sc = 0, sh, sw;
  explicit Planes(const Layout& l) {
    const size_t r = l.shape.size();
    if (r < 2) throw TypeError("pooling takes two dimensions or more");
    h = l.shape[r - 2], w = l.shape[r - 1], sh = l.strides[r - 2], sw = l.strides[r - 1];
    if (r > 2) c = l.shape[r - 3], sc = l.strides[r - 3];
    for (size_t d = r > 3 ? r - 3 : 0; d-- > 0;) {
      if (n != 1 && l.shape[d] != 1 && l.strides[d] != sn * n)
        throw TypeError("pooling takes leading dimensions that are dense among themselves");
      if (n == 1) sn = l.strides[d];
      n *= l.shape[d];
    }
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

// to[i * step] = from[i], converted.
struct StoreRow {
  template <class C, class T>
  static LAZULI_INLINE void run(const C* from, T* to, int64_t n, int64_t step) {
    if (step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) store_element(to[i], from[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) store_element(to[i * step], from[i]);
    }
  }
};
template <class C, class T>
void store_row(const C* from, T* to, int64_t n, int64_t step) {
  run_for_host<StoreRow, const C*, T*, int64_t, int64_t>(from, to, n, step);
}

inline Windows windows(const PoolParams& p, size_t d, int64_t input, int64_t output) {
  return {p.kernel[d], p.stride[d], p.padding[d], p.dilation[d], input, output};
}

}  // namespace lazuli::lowering
