#include <vector>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/pooling/pool_window.h"
#include "lowering/threads/crew.h"

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

// One operand of a sum over contiguous channels.
template <class T>
struct Term {
  const T* source;
  double divisor;
};

// The sum of terms, each divided by its divisor, for each of `n` channels; then divided by `divisor`.
struct SumOfTerms {
  template <class T>
  static LAZULI_INLINE void run(const Term<T>* terms, int64_t count, int64_t n, double divisor, T* out) {
    using C = Compute<T>;
    C sum[kChannelBlock];
    const C last = static_cast<C>(divisor);
    for (int64_t c = 0; c < n; c += kChannelBlock) {
      const int64_t lanes = std::min(kChannelBlock, n - c);
      std::fill(sum, sum + kChannelBlock, C(0));
      for (int64_t t = 0; t < count; ++t) {
        const T* source = terms[t].source + c;
        const C each = static_cast<C>(terms[t].divisor);
        if (each == C(1)) {
#pragma omp simd
          for (int64_t i = 0; i < lanes; ++i) sum[i] += static_cast<C>(source[i]);
        } else {
#pragma omp simd
          for (int64_t i = 0; i < lanes; ++i) sum[i] += static_cast<C>(source[i]) / each;
        }
      }
#pragma omp simd
      for (int64_t i = 0; i < lanes; ++i) store_element(out[c + i], sum[i] / last);
    }
  }
};

struct Divide {
  template <class C>
  static LAZULI_INLINE void run(C* sum, const double* divisors, int64_t n) {
#pragma omp simd
    // Torch adds to zeros: none is negative.
    for (int64_t i = 0; i < n; ++i) sum[i] = C(0) + sum[i] / static_cast<C>(divisors[i]);
  }
};

// How many positions of window `o` count along one dimension, with and without padding.
int64_t padded_count(const Windows& w, int64_t o) {
  const int64_t start = o * w.stride - w.padding;
  return std::min(start + w.kernel, w.input + w.padding) - start;
}
int64_t clipped_count(const Windows& w, int64_t o) {
  const int64_t start = o * w.stride - w.padding;
  return std::max<int64_t>(0, std::min(start + w.kernel, w.input) - std::max<int64_t>(start, 0));
}

class AvgPoolBase : public LibraryCall {
 protected:
  AvgPoolBase(const Layout& x, const Layout& y, const PoolParams& p)
      : dtype_(x.dtype), x_(x), y_(y), high_(windows(p, 0, x_.h, y_.h)), wide_(windows(p, 1, x_.w, y_.w)) {
    high_.dilation = wide_.dilation = 1;
    divisors_.reserve(y_.h * y_.w);
    for (int64_t oh = 0; oh < y_.h; ++oh)
      for (int64_t ow = 0; ow < y_.w; ++ow) {
        const int64_t clipped = clipped_count(high_, oh) * clipped_count(wide_, ow);
        const int64_t counted = p.count_include_pad ? padded_count(high_, oh) * padded_count(wide_, ow) : clipped;
        // A window that holds no input at all gives zero.
        divisors_.push_back(static_cast<double>(clipped == 0 ? 1 : p.divisor_override ? p.divisor_override : counted));
      }
  }
  // Whether every window has one divisor.
  bool uniform() const {
    return std::all_of(divisors_.begin(), divisors_.end(), [&](double d) { return d == divisors_[0]; });
  }
  const double* divisors(int64_t oh, int64_t ow) const { return divisors_.data() + oh * y_.w + ow; }

  ir::DType dtype_;
  Planes x_, y_;
  Windows high_, wide_;
  std::vector<double> divisors_;  // of each window
};

class AvgPool final : public AvgPoolBase {
 public:
  AvgPool(const Layout& x, const Layout& y, const PoolParams& p) : AvgPoolBase(x, y, p) {}
  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(dtype_, [&](auto e) {
      using T = decltype(e);
      if constexpr (!std::is_same_v<T, bool>)
        run_typed(static_cast<const T*>(operands[0]), static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return "avg_pool2d"; }

 private:
  template <class T>
  void run_typed(const T* x, T* y) const {
    x_.channels_last() && y_.sc == 1 ? run_channels(x, y) : run_rows(x, y);
  }
  template <class T>
  void run_channels(const T* x, T* y) const {
    const int64_t positions = y_.n * y_.h * y_.w;
    share_out(positions, positions * x_.c > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<Term<T>> terms(high_.kernel * wide_.kernel);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t ow = r % y_.w, oh = r / y_.w % y_.h, n = r / y_.w / y_.h;
        int64_t count = 0;
        for (int64_t kh = 0; kh < high_.kernel; ++kh)
          for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
            const int64_t ih = high_.input_at(oh, kh), iw = wide_.input_at(ow, kw);
            if (high_.inside(ih) && wide_.inside(iw)) terms[count++] = {x + x_.at(n, 0, ih, iw), 1};
          }
        run_for_host<SumOfTerms, const Term<T>*, int64_t, int64_t, double, T*>(
            terms.data(), count, x_.c, *divisors(oh, ow), y + y_.at(n, 0, oh, ow));
      }
    });
  }
  // The outputs of one row side by side.
  template <class T>
  void run_rows(const T* x, T* y) const {
    using C = Compute<T>;
    const int64_t rows = y_.n * x_.c * y_.h;
    share_out(rows, rows * y_.w > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<C> sum(y_.w);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t oh = r % y_.h, c = r / y_.h % x_.c, n = r / y_.h / x_.c;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t kh = 0; kh < high_.kernel; ++kh)
          if (const int64_t ih = high_.input_at(oh, kh); high_.inside(ih)) add_row(x, sum.data(), n, c, ih);
        run_for_host<Divide, C*, const double*, int64_t>(sum.data(), divisors(oh, 0), y_.w);
        store_row(sum.data(), y + y_.at(n, c, oh, 0), y_.w, y_.sw);
      }
    });
  }
  template <class T>
  void add_row(const T* x, Compute<T>* sum, int64_t n, int64_t c, int64_t ih) const {
    for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
      const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin;
      if (count > 0)
        run_for_host<Accumulate, Compute<T>*, const T*, int64_t, int64_t, int64_t>(
            sum + begin, x + x_.at(n, c, ih, wide_.input_at(begin, kw)), count, 1, wide_.stride * x_.sw);
    }
  }
};

class AvgPoolGrad final : public AvgPoolBase {
 public:
  AvgPoolGrad(const Layout& gy, const Layout& gx, const PoolParams& p) : AvgPoolBase(gx, gy, p), uniform_(uniform()) {}
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
    const int64_t positions = x_.n * x_.h * x_.w;
    const double common = uniform_ && !divisors_.empty() ? divisors_[0] : 0;  // then one division serves all terms
    share_out(positions, positions * x_.c > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<Term<T>> terms(high_.kernel * wide_.kernel);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t iw = r % x_.w, ih = r / x_.w % x_.h, n = r / x_.w / x_.h;
        int64_t count = 0;
        for (int64_t oh = high_.first_reader(ih); oh <= high_.last_reader(ih); ++oh)
          for (int64_t ow = wide_.first_reader(iw); ow <= wide_.last_reader(iw); ++ow)
            terms[count++] = {gy + y_.at(n, 0, oh, ow), common ? 1 : *divisors(oh, ow)};
        run_for_host<SumOfTerms, const Term<T>*, int64_t, int64_t, double, T*>(
            terms.data(), count, x_.c, common ? common : 1, gx + x_.at(n, 0, ih, iw));
      }
    });
  }
  template <class T>
  void run_rows(const T* gy, T* gx) const {
    using C = Compute<T>;
    const int64_t rows = x_.n * x_.c * x_.h;
    share_out(rows, rows * x_.w > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<C> sum(x_.w), share(y_.w);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t ih = r % x_.h, c = r / x_.h % x_.c, n = r / x_.h / x_.c;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t oh = high_.first_reader(ih); oh <= high_.last_reader(ih); ++oh) {
          for (int64_t ow = 0; ow < y_.w; ++ow)
            share[ow] = static_cast<C>(gy[y_.at(n, c, oh, ow)]) / static_cast<C>(*divisors(oh, ow));
          for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
            const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin;
            if (count > 0)
              run_for_host<Accumulate, C*, const C*, int64_t, int64_t, int64_t>(
                  sum.data() + wide_.input_at(begin, kw), share.data() + begin, count, wide_.stride, 1);
          }
        }
        store_row(sum.data(), gx + x_.at(n, c, ih, 0), x_.w, x_.sw);
      }
    });
  }

  bool uniform_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_avg_pool2d(const Layout& x, const Layout& out, const PoolParams& params) {
  if (x.dtype == ir::DType::Bool || out.dtype != x.dtype)
    throw TypeError("avg_pool2d does not take these element types");
  return std::make_unique<AvgPool>(x, out, params);
}

std::unique_ptr<LibraryCall> make_avg_pool2d_grad(const Layout& gy, const Layout& gx, const PoolParams& params) {
  if (gy.dtype != gx.dtype) throw TypeError("avg_pool2d_grad does not take these element types");
  return std::make_unique<AvgPoolGrad>(gy, gx, params);
}

}  // namespace lazuli::lowering
