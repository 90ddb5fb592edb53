#include <limits>
#include <vector>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/pooling/pool_window.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

template <class C>
constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::lowest();
}

// Compares `n` lanes with the best so far. Lane i reads source[i * step], whose position is index + i * index_step;
// positions are of account only where they are asked for.
template <bool positions>
struct Compare {
  template <class T, class C>
  static LAZULI_INLINE void run(C* best, int32_t* where, const T* source, int64_t n, int64_t step, int32_t index,
                                int32_t index_step) {
    const auto lane = [&](int64_t i, C v) LAZULI_INLINE_LAMBDA {
      const bool take = (v > best[i]) | (v != v);
      best[i] = take ? v : best[i];
      if constexpr (positions) where[i] = take ? index + static_cast<int32_t>(i) * index_step : where[i];
    };
    if (step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) lane(i, static_cast<C>(source[i]));
    } else if (step == 2) {  // what most networks pool with
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) lane(i, static_cast<C>(source[2 * i]));
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) lane(i, static_cast<C>(source[i * step]));
    }
  }
};

// One position of a window over contiguous channels.
template <class T>
struct Tap {
  const T* source;
  int32_t index;
};

// The best of `taps` for each of `n` channels. A position that no tap beats stays at `first`. `indices` may be null.
struct BestOfTaps {
  template <class T>
  static LAZULI_INLINE void run(const Tap<T>* taps, int64_t count, int64_t n, int32_t first, T* values,
                                int64_t* indices) {
    using C = Compute<T>;
    C best[kChannelBlock];
    int32_t where[kChannelBlock];
    for (int64_t c = 0; c < n; c += kChannelBlock) {
      const int64_t lanes = std::min(kChannelBlock, n - c);
      for (int64_t i = 0; i < kChannelBlock; ++i) best[i] = lowest<C>(), where[i] = first;
      for (int64_t t = 0; t < count; ++t) {
        const T* source = taps[t].source + c;
        const int32_t index = taps[t].index;
#pragma omp simd
        for (int64_t i = 0; i < lanes; ++i) {
          const C v = static_cast<C>(source[i]);
          const bool take = (v > best[i]) | (v != v);
          best[i] = take ? v : best[i];
          where[i] = take ? index : where[i];
        }
      }
#pragma omp simd
      for (int64_t i = 0; i < lanes; ++i) store_element(values[c + i], best[i]);
      if (!indices) continue;
#pragma omp simd
      for (int64_t i = 0; i < lanes; ++i) indices[c + i] = where[i];
    }
  }
};

// The same without positions, for so many taps, in registers.
template <int64_t count>
struct LargestOfTaps {
  template <class T>
  static LAZULI_INLINE void run(const Tap<T>* taps, int64_t n, T* values) {
    using C = Compute<T>;
    const T* sources[count];
    for (int64_t t = 0; t < count; ++t) sources[t] = taps[t].source;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C best = static_cast<C>(sources[0][i]);
#pragma GCC unroll 9
      for (int64_t t = 1; t < count; ++t) {
        const C v = static_cast<C>(sources[t][i]);
        best = (v > best) | (v != v) ? v : best;
      }
      store_element(values[i], best);
    }
  }
};

// Windows of two neighbours in each of so many rows, one window behind the other, without positions.
template <int64_t rows>
struct LargestOfNeighbours {
  template <class T>
  static LAZULI_INLINE void run(const T* const* window, int64_t n, T* values) {
    using C = Compute<T>;
    const T* sources[rows];
    for (int64_t r = 0; r < rows; ++r) sources[r] = window[r];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C best = static_cast<C>(sources[0][2 * i]);
#pragma GCC unroll 8
      for (int64_t k = 1; k < 2 * rows; ++k) {
        const C v = static_cast<C>(sources[k / 2][2 * i + k % 2]);
        best = (v > best) | (v != v) ? v : best;
      }
      store_element(values[i], best);
    }
  }
};

class MaxPool final : public LibraryCall {
 public:
  MaxPool(const Layout& x, const Layout& values, const Layout& indices, const PoolParams& p)
      : dtype_(x.dtype),
        x_(x),
        values_(values),
        indices_(indices),
        high_(windows(p, 0, x_.h, values_.h)),
        wide_(windows(p, 1, x_.w, values_.w)) {
    LAZULI_CHECK(x_.h * x_.w < std::numeric_limits<int32_t>::max(), "a pooled plane with more than 2^31 elements");
  }

  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(dtype_, [&](auto e) {
      using T = decltype(e);
      if constexpr (!std::is_same_v<T, bool>)
        run_typed(static_cast<const T*>(operands[0]), static_cast<T*>(results[0]), static_cast<int64_t*>(results[1]));
    });
  }
  std::string describe() const override { return "max_pool2d"; }

 private:
  template <class T>
  void run_typed(const T* x, T* values, int64_t* indices) const {
    if (x_.channels_last() && values_.sc == 1 && (!indices || indices_.sc == 1))
      pool_channels(x, values, indices);
    else
      pool_rows(x, values, indices);
  }

  template <class T>
  void pool_channels(const T* x, T* values, int64_t* indices) const {
    const int64_t positions = values_.n * values_.h * values_.w;
    share_out(positions, positions * x_.c > 2048, [&](int64_t begin, int64_t end, int) {
      const int64_t most = high_.kernel * wide_.kernel;
      std::vector<Tap<T>> taps(most);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t ow = r % values_.w, oh = r / values_.w % values_.h, n = r / values_.w / values_.h;
        int64_t count = 0;
        for (int64_t kh = 0; kh < high_.kernel; ++kh)
          for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
            const int64_t ih = high_.input_at(oh, kh), iw = wide_.input_at(ow, kw);
            if (high_.inside(ih) && wide_.inside(iw))
              taps[count++] = {x + x_.at(n, 0, ih, iw), static_cast<int32_t>(ih * x_.w + iw)};
          }
        T* to = values + values_.at(n, 0, oh, ow);
        if (!indices && count > 0 && (most == 4 || most == 9)) {
          std::fill(taps.begin() + count, taps.end(), taps[0]);  // twice the same changes nothing
          most == 4 ? run_for_host<LargestOfTaps<4>, const Tap<T>*, int64_t, T*>(taps.data(), x_.c, to)
                    : run_for_host<LargestOfTaps<9>, const Tap<T>*, int64_t, T*>(taps.data(), x_.c, to);
          continue;
        }
        run_for_host<BestOfTaps, const Tap<T>*, int64_t, int64_t, int32_t, T*, int64_t*>(
            taps.data(), count, x_.c, static_cast<int32_t>(high_.first(oh) * x_.w + wide_.first(ow)), to,
            indices ? indices + indices_.at(n, 0, oh, ow) : nullptr);
      }
    });
  }

  bool pools_neighbours() const {
    return wide_.kernel == 2 && wide_.stride == 2 && wide_.padding == 0 && wide_.dilation == 1 && x_.sw == 1 &&
           values_.sw == 1 && 2 * values_.w <= x_.w && high_.kernel <= 2 && high_.padding < high_.kernel;
  }
  // One row of outputs. Each window has a row inside.
  template <class T>
  void pool_row_of_neighbours(const T* x, T* values, int64_t n, int64_t c, int64_t oh) const {
    const T* rows[2];
    int64_t count = 0;
    for (int64_t kh = 0; kh < high_.kernel; ++kh)
      if (const int64_t ih = high_.input_at(oh, kh); high_.inside(ih)) rows[count++] = x + x_.at(n, c, ih, 0);
    count == 1 ? run_for_host<LargestOfNeighbours<1>, const T* const*, int64_t, T*>(rows, values_.w, values)
               : run_for_host<LargestOfNeighbours<2>, const T* const*, int64_t, T*>(rows, values_.w, values);
  }

  // The outputs of one row side by side.
  template <class T>
  void pool_rows(const T* x, T* values, int64_t* indices) const {
    const int64_t rows = values_.n * x_.c * values_.h;
    share_out(rows, rows * values_.w > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<Compute<T>> best(values_.w);
      std::vector<int32_t> where(values_.w);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t oh = r % values_.h, c = r / values_.h % x_.c, n = r / values_.h / x_.c;
        if (!indices && pools_neighbours()) {
          pool_row_of_neighbours(x, values + values_.at(n, c, oh, 0), n, c, oh);
          continue;
        }
        std::fill(best.begin(), best.end(), lowest<Compute<T>>());
        indices ? pool_row<true>(x, best.data(), where.data(), n, c, oh)
                : pool_row<false>(x, best.data(), where.data(), n, c, oh);
        store_row(best.data(), values + values_.at(n, c, oh, 0), values_.w, values_.sw);
        if (indices) store_row(where.data(), indices + indices_.at(n, c, oh, 0), values_.w, indices_.sw);
      }
    });
  }
  template <bool positions, class T>
  void pool_row(const T* x, Compute<T>* best, int32_t* where, int64_t n, int64_t c, int64_t oh) const {
    for (int64_t ow = 0; positions && ow < values_.w; ++ow)
      where[ow] = static_cast<int32_t>(high_.first(oh) * x_.w + wide_.first(ow));
    for (int64_t kh = 0; kh < high_.kernel; ++kh) {
      const int64_t ih = high_.input_at(oh, kh);
      if (!high_.inside(ih)) continue;
      for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
        const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin, iw = wide_.input_at(begin, kw);
        if (count > 0)
          compare<positions>(best + begin, where + begin, x + x_.at(n, c, ih, iw), count, wide_.stride * x_.sw,
                             ih * x_.w + iw, wide_.stride);
      }
    }
  }
  template <bool positions, class T>
  static void compare(Compute<T>* best, int32_t* where, const T* source, int64_t n, int64_t step, int64_t index,
                      int64_t index_step) {
    run_for_host<Compare<positions>, Compute<T>*, int32_t*, const T*, int64_t, int64_t, int32_t, int32_t>(
        best, where, source, n, step, static_cast<int32_t>(index), static_cast<int32_t>(index_step));
  }

  ir::DType dtype_;
  Planes x_, values_, indices_;
  Windows high_, wide_;
};

class MaxPoolGrad final : public LibraryCall {
 public:
  MaxPoolGrad(const Layout& gy, const Layout& indices, const Layout& gx)
      : dtype_(gx.dtype), gy_(gy), indices_(indices), gx_(gx) {
    width_ = gx_.channels_last() ? std::min<int64_t>(gx_.c, gx_.n < 2 * crew_size() ? 16 : 64) : 1;
  }

  void run(const void* const* operands, void* const* results, void*) override {
    with_floating_type(dtype_, [&](auto e) {
      using T = decltype(e);
      push(static_cast<const T*>(operands[0]), static_cast<const int64_t*>(operands[1]), static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return "max_pool2d_grad"; }

 private:
  // Each window gives to the position that it chose: one plane at a time, or a few channels where these are contiguous.
  // Sums are made in the result itself when it has the compute type and positions are evenly spaced.
  template <class T>
  void push(const T* gy, const int64_t* indices, T* gx) const {
    using C = Compute<T>;
    const int64_t blocks = (gx_.c + width_ - 1) / width_, size = gx_.h * gx_.w;
    const bool in_place = std::is_same_v<T, C> && gx_.sh == gx_.w * gx_.sw;
    share_out(gx_.n * blocks, gx_.n * gx_.c * size > 2048, [&](int64_t begin, int64_t end, int) {
      std::vector<C> own(in_place ? 0 : size * width_);
      for (int64_t r = begin; r < end; ++r) {
        const int64_t n = r / blocks, c = r % blocks * width_, lanes = std::min(width_, gx_.c - c);
        T* to = gx + gx_.at(n, c, 0, 0);
        if constexpr (std::is_same_v<T, C>)
          if (in_place) {
            if (gx_.sw == lanes)
              std::fill_n(to, size * lanes, C(0));
            else
              for (int64_t i = 0; i < size; ++i) std::fill_n(to + i * gx_.sw, lanes, C(0));
            add_chosen(gy, indices, to, gx_.sw, n, c, lanes);
            continue;
          }
        std::fill(own.begin(), own.end(), C(0));
        add_chosen(gy, indices, own.data(), width_, n, c, lanes);
        for (int64_t ih = 0; ih < gx_.h; ++ih)
          if (const C* row = own.data() + ih * gx_.w * width_; width_ == 1)
            store_row(row, to + ih * gx_.sh, gx_.w, gx_.sw);
          else
            for (int64_t iw = 0; iw < gx_.w; ++iw)
              store_row(row + iw * width_, to + ih * gx_.sh + iw * gx_.sw, lanes, 1);
      }
    });
  }
  // sums[position * step + lane] += gy, for `lanes` channels from c. Indices may be a user's: those outside are
  // ignored.
  template <class T, class C>
  void add_chosen(const T* gy, const int64_t* indices, C* sums, int64_t step, int64_t n, int64_t c,
                  int64_t lanes) const {
    for (int64_t oh = 0; oh < gy_.h; ++oh) {
      const int64_t* at = indices + indices_.at(n, c, oh, 0);
      const T* give = gy + gy_.at(n, c, oh, 0);
      for (int64_t ow = 0; ow < gy_.w; ++ow, at += indices_.sw, give += gy_.sw)
        for (int64_t l = 0; l < lanes; ++l)
          if (const int64_t to = at[l * indices_.sc]; to >= 0 && to < gx_.h * gx_.w)
            sums[to * step + l] += static_cast<C>(give[l * gy_.sc]);
    }
  }

  ir::DType dtype_;
  Planes gy_, indices_, gx_;
  int64_t width_;  // channels at a time
};

}  // namespace

std::unique_ptr<LibraryCall> make_max_pool2d(const Layout& x, const Layout& values, const Layout& indices,
                                             const PoolParams& params) {
  if (x.dtype == ir::DType::Bool || values.dtype != x.dtype || indices.dtype != ir::DType::I64)
    throw TypeError("max_pool2d does not take these element types");
  return std::make_unique<MaxPool>(x, values, indices, params);
}

std::unique_ptr<LibraryCall> make_max_pool2d_grad(const Layout& gy, const Layout& indices, const Layout& gx) {
  if (gy.dtype != gx.dtype || indices.dtype != ir::DType::I64)
    throw TypeError("max_pool2d_grad does not take these element types");
  return std::make_unique<MaxPoolGrad>(gy, indices, gx);
}

}  // namespace lazuli::lowering
