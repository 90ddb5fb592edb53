#include <vector>
#include "lowering/libraries/clones.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/pool_window.h"

namespace lazuli::lowering {
namespace {

// sum[i * sum_step] += source[i * step].
struct Accumulate {
  template <class T, class C>
  static LAZULI_INLINE void run(C* sum, const T* source, int64_t n, int64_t sum_step, int64_t step) {
    if (step == 1 && sum_step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<C>(source[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) sum[i * sum_step] += static_cast<C>(source[i * step]);
    }
  }
};
struct AccumulateQuotient {
  template <class T, class C>
  static LAZULI_INLINE void run(C* sum, const T* source, int64_t n, C divisor) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += static_cast<C>(source[i]) / divisor;
  }
};

// How many positions of each window count along one dimension.
struct Counts {
  std::vector<int64_t> padded, clipped;
  explicit Counts(const Windows& w) {
    for (int64_t o = 0; o < w.output; ++o) {
      const int64_t start = o * w.stride - w.padding, stop = std::min(start + w.kernel, w.input + w.padding);
      padded.push_back(stop - start);
      clipped.push_back(std::max<int64_t>(0, std::min(stop, w.input) - std::max<int64_t>(start, 0)));
    }
  }
};

class AvgPoolBase : public LibraryCall {
 protected:
  AvgPoolBase(const Layout& x, const Layout& y, const PoolParams& p)
      : dtype_(x.dtype), x_(x), y_(y), high_(windows(p, 0, x_.h, y_.h)), wide_(windows(p, 1, x_.w, y_.w)),
        rows_(high_), columns_(wide_), override_(p.divisor_override), include_pad_(p.count_include_pad) {
    high_.dilation = wide_.dilation = 1;
  }
  // What the window's sum is divided by; a window that holds no input at all gives zero.
  int64_t divisor(int64_t oh, int64_t ow) const {
    if (rows_.clipped[oh] * columns_.clipped[ow] == 0) return 1;
    if (override_) return override_;
    return include_pad_ ? rows_.padded[oh] * columns_.padded[ow] : rows_.clipped[oh] * columns_.clipped[ow];
  }

  ir::DType dtype_;
  Planes x_, y_;
  Windows high_, wide_;
  Counts rows_, columns_;
  int64_t override_;
  bool include_pad_;
};

class AvgPool final : public AvgPoolBase {
 public:
  AvgPool(const Layout& x, const Layout& y, const PoolParams& p) : AvgPoolBase(x, y, p) {}
  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(dtype_, [&](auto e) {
      using T = decltype(e);
      if constexpr (!std::is_same_v<T, bool>) run_typed(static_cast<const T*>(operands[0]), static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return "avg_pool2d"; }

 private:
  // Lanes are the channels of one output position, or the outputs of one row.
  template <class T>
  void run_typed(const T* x, T* y) const {
    using C = Compute<T>;
    const bool channels = x_.channels_last();
    const int64_t lanes = channels ? x_.c : y_.w, other = channels ? y_.w : x_.c, rows = y_.n * y_.h * other;
#pragma omp parallel if (rows * lanes > 2048)
    {
      std::vector<C> sum(lanes);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t n = r / (y_.h * other);
        const int64_t oh = channels ? r / other % y_.h : r % y_.h, second = channels ? r % other : r / y_.h % other;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t kh = 0; kh < high_.kernel; ++kh) {
          const int64_t ih = high_.input_at(oh, kh);
          if (high_.inside(ih)) channels ? add_channels(x, sum.data(), n, ih, second) : add_row(x, sum.data(), n, second, ih);
        }
        for (int64_t l = 0; l < lanes; ++l) {
          const int64_t c = channels ? l : second, ow = channels ? second : l;
          y[y_.at(n, c, oh, ow)] = static_cast<T>(sum[l] / static_cast<C>(divisor(oh, ow)));
        }
      }
    }
  }
  template <class T>
  void add_channels(const T* x, Compute<T>* sum, int64_t n, int64_t ih, int64_t ow) const {
    for (int64_t kw = 0; kw < wide_.kernel; ++kw)
      if (const int64_t iw = wide_.input_at(ow, kw); wide_.inside(iw)) add(sum, x + x_.at(n, 0, ih, iw), x_.c, 1);
  }
  template <class T>
  void add_row(const T* x, Compute<T>* sum, int64_t n, int64_t c, int64_t ih) const {
    for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
      const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin;
      if (count > 0) add(sum + begin, x + x_.at(n, c, ih, wide_.input_at(begin, kw)), count, wide_.stride * x_.sw);
    }
  }
  template <class T>
  static void add(Compute<T>* sum, const T* source, int64_t n, int64_t step) {
    run_for_host<Accumulate, Compute<T>*, const T*, int64_t, int64_t, int64_t>(sum, source, n, 1, step);
  }
};

class AvgPoolGrad final : public AvgPoolBase {
 public:
  AvgPoolGrad(const Layout& gy, const Layout& gx, const PoolParams& p) : AvgPoolBase(gx, gy, p) {}
  void run(const void* const* operands, void* const* results, void*) override {
    with_floating_type(dtype_, [&](auto e) {
      using T = decltype(e);
      const T* gy = static_cast<const T*>(operands[0]);
      T* gx = static_cast<T*>(results[0]);
      x_.channels_last() && y_.sc == 1 ? run_channels(gy, gx) : run_rows(gy, gx);
    });
  }
  std::string describe() const override { return "avg_pool2d_grad"; }

 private:
  template <class T>
  void run_channels(const T* gy, T* gx) const {
    using C = Compute<T>;
    const int64_t positions = x_.n * x_.h * x_.w;
#pragma omp parallel if (positions * x_.c > 2048)
    {
      std::vector<C> sum(x_.c);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < positions; ++r) {
        const int64_t iw = r % x_.w, ih = r / x_.w % x_.h, n = r / x_.w / x_.h;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t oh = high_.first_reader(ih); oh <= high_.last_reader(ih); ++oh)
          for (int64_t ow = wide_.first_reader(iw); ow <= wide_.last_reader(iw); ++ow)
            run_for_host<AccumulateQuotient, C*, const T*, int64_t, C>(sum.data(), gy + y_.at(n, 0, oh, ow), x_.c,
                                                                       static_cast<C>(divisor(oh, ow)));
        T* out = gx + x_.at(n, 0, ih, iw);
        for (int64_t c = 0; c < x_.c; ++c) out[c] = static_cast<T>(sum[c]);
      }
    }
  }
  template <class T>
  void run_rows(const T* gy, T* gx) const {
    using C = Compute<T>;
    const int64_t rows = x_.n * x_.c * x_.h;
#pragma omp parallel if (rows * x_.w > 2048)
    {
      std::vector<C> sum(x_.w), share(y_.w);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t ih = r % x_.h, c = r / x_.h % x_.c, n = r / x_.h / x_.c;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t oh = high_.first_reader(ih); oh <= high_.last_reader(ih); ++oh) {
          for (int64_t ow = 0; ow < y_.w; ++ow)
            share[ow] = static_cast<C>(gy[y_.at(n, c, oh, ow)]) / static_cast<C>(divisor(oh, ow));
          for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
            const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin;
            if (count > 0)
              run_for_host<Accumulate, C*, const C*, int64_t, int64_t, int64_t>(
                  sum.data() + wide_.input_at(begin, kw), share.data() + begin, count, wide_.stride, 1);
          }
        }
        for (int64_t iw = 0; iw < x_.w; ++iw) gx[x_.at(n, c, ih, iw)] = static_cast<T>(sum[iw]);
      }
    }
  }
};

}  // namespace

std::unique_ptr<LibraryCall> make_avg_pool2d(const Layout& x, const Layout& out, const PoolParams& params) {
  if (x.dtype == ir::DType::Bool || out.dtype != x.dtype) throw TypeError("avg_pool2d does not take these element types");
  return std::make_unique<AvgPool>(x, out, params);
}

std::unique_ptr<LibraryCall> make_avg_pool2d_grad(const Layout& gy, const Layout& gx, const PoolParams& params) {
  if (gy.dtype != gx.dtype) throw TypeError("avg_pool2d_grad does not take these element types");
  return std::make_unique<AvgPoolGrad>(gy, gx, params);
}

}  // namespace lazuli::lowering
