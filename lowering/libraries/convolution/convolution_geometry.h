// What a convolution reads where, for our own ones.
#pragma once
#include "lowering/libraries/convolution/patches.h"
#include "lowering/libraries/convolution/spatial.h"
#include "lowering/libraries/primitive.h"

namespace lazuli::lowering {

// The sizes of an image.
struct Image {
  explicit Image(const Layout& l) : n(l.shape[0]), channels(l.shape[1]), size(three(l.shape, 2, 1)) {}
  int64_t points() const { return size[0] * size[1] * size[2]; }
  int64_t n, channels;
  Three size;
};

// Along a dimension, how the outputs of a convolution read its inputs.
inline PatchAxis forward_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                              int64_t dilation) {
  PatchAxis a{in, out, stride, {}};
  for (int64_t k = 0; k < kernel; ++k) a.taps.push_back({k * dilation - padding, k});
  return a;
}
// How inputs phase, phase + stride, ... read the gradient of the outputs.
inline PatchAxis gradient_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                               int64_t dilation, int64_t phase) {
  PatchAxis a{out, (in - phase + stride - 1) / stride, 1, {}};
  for (int64_t k = kernel; k-- > 0;)
    if (const int64_t shift = phase + padding - k * dilation; shift % stride == 0)
      a.taps.push_back({shift / stride, k});
  return a;
}

struct Geometry {
  Image x, y;
  Three kernel, stride, padding, dilation, tap;  // the last: strides of the weights
  int64_t w_out, w_in;
  explicit Geometry(const onednn::Convolution& c)
      : x(c.x),
        y(c.y),
        kernel(three(c.w.shape, 2, 1)),
        stride(three(c.stride, 0, 1)),
        padding(three(c.padding, 0, 0)),
        dilation(three(c.dilation, 0, 1)),
        tap(three(c.w.strides, 2, 0)),
        w_out(c.w.strides[0]),
        w_in(c.w.strides[1]) {}
  PatchAxis forward(int d) const {
    return forward_axis(x.size[d], y.size[d], kernel[d], stride[d], padding[d], dilation[d]);
  }
  PatchAxes forward() const { return {forward(0), forward(1), forward(2)}; }
  PatchAxis gradient(int d, int64_t phase) const {
    return gradient_axis(x.size[d], y.size[d], kernel[d], stride[d], padding[d], dilation[d], phase);
  }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

}  // namespace lazuli::lowering
