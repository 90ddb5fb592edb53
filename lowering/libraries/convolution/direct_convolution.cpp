#include "lowering/libraries/convolution/direct_convolution.h"
#include <algorithm>
#include <stdexcept>
#include "lowering/libraries/convolution/spatial.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

// An operand with exactly three spatial dimensions.
struct Volume {
  int64_t outer, inner;  // N and C, or OC and C / groups
  int64_t outer_stride, inner_stride;
  Three size, stride;
  explicit Volume(const Layout& l)
      : outer(l.shape[0]),
        inner(l.shape[1]),
        outer_stride(l.strides[0]),
        inner_stride(l.strides[1]),
        size(three(l.shape, 2, 1)),
        stride(three(l.strides, 2, 0)) {}
  int64_t at(int64_t o, int64_t i) const { return o * outer_stride + i * inner_stride; }
};

// Positions o in [begin, end) for which o * stride + offset lies in [0, size).
struct Range {
  int64_t begin, end;
  Range(int64_t count, int64_t stride, int64_t offset, int64_t size) {
    begin = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    end = size - offset <= 0 ? 0 : std::min(count, (size - offset + stride - 1) / stride);
  }
};

class DirectConvolution final : public LibraryCall {
 public:
  DirectConvolution(const onednn::Convolution& c, std::span<const PostOp> ops)
      : c_(c),
        x_(c.x),
        w_(c.w),
        y_(c.y),
        stride_(three(c.stride, 0, 1)),
        padding_(three(c.padding, 0, 0)),
        dilation_(three(c.dilation, 0, 1)),
        ops_(broadcast_post_ops(ops, c.y.shape)) {}

  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(c_.y.dtype, [&](auto e) {
      using T = std::conditional_t<std::is_same_v<decltype(e), bool>, uint8_t, decltype(e)>;
      const T* first = static_cast<const T*>(operands[0]);
      const T* second = static_cast<const T*>(operands[1]);
      T* result = static_cast<T*>(results[0]);
      switch (c_.pass) {
        case onednn::Pass::Forward:
          return forward(first, second, result);
        case onednn::Pass::InputGrad:
          return input_grad(first, second, result);
        case onednn::Pass::WeightGrad:
          return c_.swapped ? weight_grad(second, first, result) : weight_grad(first, second, result);
      }
    });
    run_post_ops(ops_, c_.y, results[0], operands + 2);
  }
  std::string describe() const override { return "convolution:own"; }

 private:
  bool has_little_to_do() const {
    return is_little(y_.outer * y_.inner * y_.size[0] * y_.size[1] * y_.size[2] * w_.inner * w_.size[0] * w_.size[1] *
                     w_.size[2]);
  }
  int64_t channels_per_group_out() const { return w_.outer / c_.groups; }
  // Where output position `o` with kernel position `k` reads, along dimension d.
  int64_t source(int d, int64_t o, int64_t k) const { return o * stride_[d] - padding_[d] + k * dilation_[d]; }
  bool inside(int d, int64_t i) const { return i >= 0 && i < x_.size[d]; }

  // y's row (n, oc, od, oh) at a time.
  template <class T>
  void forward(const T* x, const T* w, T* y) const {
    using C = Compute<T>;
    const int64_t rows = y_.outer * y_.inner * y_.size[0] * y_.size[1];
    share_out(rows, !has_little_to_do(), [&](int64_t begin, int64_t end, int) {
      std::vector<C> sum(y_.size[2]);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t oh = r % y_.size[1], od = r / y_.size[1] % y_.size[0], nc = r / y_.size[1] / y_.size[0];
        const int64_t oc = nc % y_.inner, n = nc / y_.inner, first = oc / channels_per_group_out() * w_.inner;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t ic = 0; ic < w_.inner; ++ic)
          for (int64_t kd = 0; kd < w_.size[0]; ++kd)
            for (int64_t kh = 0; kh < w_.size[1]; ++kh) {
              const int64_t id = source(0, od, kd), ih = source(1, oh, kh);
              if (!inside(0, id) || !inside(1, ih)) continue;
              const T* xr = x + x_.at(n, first + ic) + id * x_.stride[0] + ih * x_.stride[1];
              const T* wr = w + w_.at(oc, ic) + kd * w_.stride[0] + kh * w_.stride[1];
              for (int64_t kw = 0; kw < w_.size[2]; ++kw) add_row(sum, static_cast<C>(wr[kw * w_.stride[2]]), xr, kw);
            }
        T* out = y + y_.at(n, oc) + od * y_.stride[0] + oh * y_.stride[1];
        for (int64_t ow = 0; ow < y_.size[2]; ++ow) out[ow * y_.stride[2]] = static_cast<T>(sum[ow]);
      }
    });
  }
  template <class T, class C>
  void add_row(std::vector<C>& sum, C weight, const T* xr, int64_t kw) const {
    const int64_t offset = kw * dilation_[2] - padding_[2], step = stride_[2] * x_.stride[2];
    const Range range(y_.size[2], stride_[2], offset, x_.size[2]);
    const T* from = xr + offset * x_.stride[2];
    for (int64_t ow = range.begin; ow < range.end; ++ow) sum[ow] += weight * static_cast<C>(from[ow * step]);
  }

  // x's row (n, c, id, ih) at a time: every output row that read it gives to it.
  template <class T>
  void input_grad(const T* gy, const T* w, T* gx) const {
    using C = Compute<T>;
    const int64_t rows = x_.outer * x_.inner * x_.size[0] * x_.size[1];
    share_out(rows, !has_little_to_do(), [&](int64_t begin, int64_t end, int) {
      std::vector<C> sum(x_.size[2]);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t ih = r % x_.size[1], id = r / x_.size[1] % x_.size[0], nc = r / x_.size[1] / x_.size[0];
        const int64_t c = nc % x_.inner, n = nc / x_.inner, group = c / w_.inner;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t o = 0; o < channels_per_group_out(); ++o)
          for (int64_t kd = 0; kd < w_.size[0]; ++kd)
            for (int64_t kh = 0; kh < w_.size[1]; ++kh) {
              int64_t od, oh;
              if (!reader(0, id, kd, od) || !reader(1, ih, kh, oh)) continue;
              const int64_t oc = group * channels_per_group_out() + o;
              const T* gr = gy + y_.at(n, oc) + od * y_.stride[0] + oh * y_.stride[1];
              const T* wr = w + w_.at(oc, c % w_.inner) + kd * w_.stride[0] + kh * w_.stride[1];
              for (int64_t kw = 0; kw < w_.size[2]; ++kw)
                spread_row(sum, static_cast<C>(wr[kw * w_.stride[2]]), gr, kw);
            }
        T* out = gx + x_.at(n, c) + id * x_.stride[0] + ih * x_.stride[1];
        for (int64_t iw = 0; iw < x_.size[2]; ++iw) out[iw * x_.stride[2]] = static_cast<T>(sum[iw]);
      }
    });
  }
  // The output position that reads input position `i` with kernel position `k`, if there is one.
  bool reader(int d, int64_t i, int64_t k, int64_t& o) const {
    const int64_t scaled = i + padding_[d] - k * dilation_[d];
    o = scaled / stride_[d];
    return scaled >= 0 && scaled % stride_[d] == 0 && o < y_.size[d];
  }
  template <class T, class C>
  void spread_row(std::vector<C>& sum, C weight, const T* gr, int64_t kw) const {
    const int64_t offset = kw * dilation_[2] - padding_[2];
    const Range range(y_.size[2], stride_[2], offset, x_.size[2]);
    for (int64_t ow = range.begin; ow < range.end; ++ow)
      sum[ow * stride_[2] + offset] += weight * static_cast<C>(gr[ow * y_.stride[2]]);
  }

  template <class T>
  void weight_grad(const T* gy, const T* x, T* gw) const {
    using C = Compute<T>;
    const int64_t kernels = w_.outer * w_.inner, taps = w_.size[0] * w_.size[1] * w_.size[2];
    share_out(kernels * taps, !has_little_to_do(), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t tap = r % taps, oc = r / taps / w_.inner, ic = r / taps % w_.inner;
        const Three k{tap / (w_.size[1] * w_.size[2]), tap / w_.size[2] % w_.size[1], tap % w_.size[2]};
        const int64_t c = oc / channels_per_group_out() * w_.inner + ic;
        C sum(0);
        for (int64_t n = 0; n < y_.outer; ++n) sum += tap_sum<T, C>(gy + y_.at(n, oc), x + x_.at(n, c), k);
        gw[w_.at(oc, ic) + k[0] * w_.stride[0] + k[1] * w_.stride[1] + k[2] * w_.stride[2]] = static_cast<T>(sum);
      }
    });
  }
  template <class T, class C>
  C tap_sum(const T* gy, const T* x, const Three& k) const {
    C sum(0);
    const int64_t offset = k[2] * dilation_[2] - padding_[2];
    const Range range(y_.size[2], stride_[2], offset, x_.size[2]);
    for (int64_t od = 0; od < y_.size[0]; ++od)
      for (int64_t oh = 0; oh < y_.size[1]; ++oh) {
        const int64_t id = source(0, od, k[0]), ih = source(1, oh, k[1]);
        if (!inside(0, id) || !inside(1, ih)) continue;
        const T* gr = gy + od * y_.stride[0] + oh * y_.stride[1];
        const T* xr = x + id * x_.stride[0] + ih * x_.stride[1] + offset * x_.stride[2];
        for (int64_t ow = range.begin; ow < range.end; ++ow)
          sum += static_cast<C>(gr[ow * y_.stride[2]]) * static_cast<C>(xr[ow * stride_[2] * x_.stride[2]]);
      }
    return sum;
  }

  onednn::Convolution c_;
  Volume x_, w_, y_;
  Three stride_, padding_, dilation_;
  std::vector<PostOp> ops_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_direct_convolution(const onednn::Convolution& c, std::span<const PostOp> post_ops) {
  if (c.x.dtype != c.y.dtype || c.w.dtype != c.y.dtype || !ir::is_native(c.y.dtype) || c.y.dtype == ir::DType::Bool)
    throw std::runtime_error("no convolution for element type " + std::string(ir::name(c.y.dtype)));
  return std::make_unique<DirectConvolution>(c, post_ops);
}

}  // namespace lazuli::lowering
