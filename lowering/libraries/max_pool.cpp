#include <limits>
#include <vector>
#include "lowering/libraries/clones.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/pool_window.h"

namespace lazuli::lowering {
namespace {

template <class C>
constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::lowest();
}

// Compares `n` lanes with the best so far. Lane i reads source[i * step], whose position is index + i * index_step.
struct Compare {
  template <class T, class C>
  static LAZULI_INLINE void run(C* best, int32_t* where, const T* source, int64_t n, int64_t step, int32_t index,
                                int32_t index_step) {
    const auto lane = [&](int64_t i, C v) {
      const bool take = v > best[i] || v != v;
      best[i] = take ? v : best[i];
      where[i] = take ? index + static_cast<int32_t>(i) * index_step : where[i];
    };
    if (step == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) lane(i, static_cast<C>(source[i]));
    } else {
      for (int64_t i = 0; i < n; ++i) lane(i, static_cast<C>(source[i * step]));
    }
  }
};

class MaxPool final : public LibraryCall {
 public:
  MaxPool(const Layout& x, const Layout& values, const Layout& indices, const PoolParams& p)
      : dtype_(x.dtype), x_(x), values_(values), indices_(indices), high_(windows(p, 0, x_.h, values_.h)),
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
  // Lanes are the channels of one output position, or the outputs of one row.
  template <class T>
  void run_typed(const T* x, T* values, int64_t* indices) const {
    const bool channels = x_.channels_last();
    const int64_t lanes = channels ? x_.c : values_.w, other = channels ? values_.w : x_.c;
    const int64_t rows = values_.n * values_.h * other;
#pragma omp parallel if (rows * lanes > 2048)
    {
      std::vector<Compute<T>> best(lanes);
      std::vector<int32_t> where(lanes);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < rows; ++r) {
        // Rows in the order of memory: channels-last [n, oh, ow], row-major [n, c, oh].
        const int64_t n = r / (values_.h * other);
        const int64_t oh = channels ? r / other % values_.h : r % values_.h;
        const int64_t second = channels ? r % other : r / values_.h % other;
        std::fill(best.begin(), best.end(), lowest<Compute<T>>());
        if (channels) pool_channels(x, best.data(), where.data(), n, oh, second);
        else pool_row(x, best.data(), where.data(), n, second, oh);
        const int64_t v = channels ? values_.at(n, 0, oh, second) : values_.at(n, second, oh, 0);
        const int64_t i = channels ? indices_.at(n, 0, oh, second) : indices_.at(n, second, oh, 0);
        const int64_t v_step = channels ? values_.sc : values_.sw, i_step = channels ? indices_.sc : indices_.sw;
        for (int64_t l = 0; l < lanes; ++l) values[v + l * v_step] = static_cast<T>(best[l]);
        for (int64_t l = 0; l < lanes; ++l) indices[i + l * i_step] = where[l];
      }
    }
  }
  template <class T>
  void pool_channels(const T* x, Compute<T>* best, int32_t* where, int64_t n, int64_t oh, int64_t ow) const {
    std::fill(where, where + x_.c, static_cast<int32_t>(high_.first(oh) * x_.w + wide_.first(ow)));
    for (int64_t kh = 0; kh < high_.kernel; ++kh)
      for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
        const int64_t ih = high_.input_at(oh, kh), iw = wide_.input_at(ow, kw);
        if (high_.inside(ih) && wide_.inside(iw)) compare(best, where, x + x_.at(n, 0, ih, iw), x_.c, 1, ih * x_.w + iw, 0);
      }
  }
  template <class T>
  void pool_row(const T* x, Compute<T>* best, int32_t* where, int64_t n, int64_t c, int64_t oh) const {
    for (int64_t ow = 0; ow < values_.w; ++ow) where[ow] = static_cast<int32_t>(high_.first(oh) * x_.w + wide_.first(ow));
    for (int64_t kh = 0; kh < high_.kernel; ++kh) {
      const int64_t ih = high_.input_at(oh, kh);
      if (!high_.inside(ih)) continue;
      for (int64_t kw = 0; kw < wide_.kernel; ++kw) {
        const int64_t begin = wide_.begin(kw), count = wide_.end(kw) - begin, iw = wide_.input_at(begin, kw);
        if (count > 0)
          compare(best + begin, where + begin, x + x_.at(n, c, ih, iw), count, wide_.stride * x_.sw, ih * x_.w + iw, wide_.stride);
      }
    }
  }
  template <class T>
  static void compare(Compute<T>* best, int32_t* where, const T* source, int64_t n, int64_t step, int64_t index,
                      int64_t index_step) {
    run_for_host<Compare, Compute<T>*, int32_t*, const T*, int64_t, int64_t, int32_t, int32_t>(
        best, where, source, n, step, static_cast<int32_t>(index), static_cast<int32_t>(index_step));
  }

  ir::DType dtype_;
  Planes x_, values_, indices_;
  Windows high_, wide_;
};

// Adds to each lane the gradient of a window whose maximum is at `position`.
struct AddWhereChosen {
  template <class T, class C>
  static LAZULI_INLINE void run(C* sum, const T* gy, const int64_t* indices, int64_t n, int64_t position) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) sum[i] += indices[i] == position ? static_cast<C>(gy[i]) : C(0);
  }
};

class MaxPoolGrad final : public LibraryCall {
 public:
  MaxPoolGrad(const Layout& gy, const Layout& indices, const Layout& gx, const PoolParams& p)
      : dtype_(gx.dtype), gy_(gy), indices_(indices), gx_(gx), high_(windows(p, 0, gx_.h, gy_.h)),
        wide_(windows(p, 1, gx_.w, gy_.w)) {}

  void run(const void* const* operands, void* const* results, void*) override {
    with_floating_type(dtype_, [&](auto e) {
      using T = decltype(e);
      const T* gy = static_cast<const T*>(operands[0]);
      const int64_t* indices = static_cast<const int64_t*>(operands[1]);
      T* gx = static_cast<T*>(results[0]);
      if (gx_.channels_last() && gy_.sc == 1 && indices_.sc == 1) pull_channels(gy, indices, gx);
      else push_planes(gy, indices, gx);
    });
  }
  std::string describe() const override { return "max_pool2d_grad"; }

 private:
  // Each input position collects from the windows that chose it.
  template <class T>
  void pull_channels(const T* gy, const int64_t* indices, T* gx) const {
    using C = Compute<T>;
    const int64_t positions = gx_.n * gx_.h * gx_.w;
#pragma omp parallel if (positions * gx_.c > 2048)
    {
      std::vector<C> sum(gx_.c);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < positions; ++r) {
        const int64_t iw = r % gx_.w, ih = r / gx_.w % gx_.h, n = r / gx_.w / gx_.h;
        std::fill(sum.begin(), sum.end(), C(0));
        for (int64_t oh = high_.first_reader(ih); oh <= high_.last_reader(ih); ++oh)
          for (int64_t ow = wide_.first_reader(iw); ow <= wide_.last_reader(iw); ++ow)
            run_for_host<AddWhereChosen, C*, const T*, const int64_t*, int64_t, int64_t>(
                sum.data(), gy + gy_.at(n, 0, oh, ow), indices + indices_.at(n, 0, oh, ow), gx_.c, ih * gx_.w + iw);
        T* out = gx + gx_.at(n, 0, ih, iw);
        for (int64_t c = 0; c < gx_.c; ++c) out[c] = static_cast<T>(sum[c]);
      }
    }
  }
  // Each window gives to the position that it chose, one plane at a time.
  template <class T>
  void push_planes(const T* gy, const int64_t* indices, T* gx) const {
    using C = Compute<T>;
#pragma omp parallel if (gx_.n * gx_.c * gx_.h * gx_.w > 2048)
    {
      std::vector<C> plane(gx_.h * gx_.w);
#pragma omp for schedule(static)
      for (int64_t r = 0; r < gx_.n * gx_.c; ++r) {
        const int64_t n = r / gx_.c, c = r % gx_.c;
        std::fill(plane.begin(), plane.end(), C(0));
        for (int64_t oh = 0; oh < gy_.h; ++oh)
          for (int64_t ow = 0; ow < gy_.w; ++ow)
            plane[indices[indices_.at(n, c, oh, ow)]] += static_cast<C>(gy[gy_.at(n, c, oh, ow)]);
        for (int64_t ih = 0; ih < gx_.h; ++ih)
          for (int64_t iw = 0; iw < gx_.w; ++iw) gx[gx_.at(n, c, ih, iw)] = static_cast<T>(plane[ih * gx_.w + iw]);
      }
    }
  }

  ir::DType dtype_;
  Planes gy_, indices_, gx_;
  Windows high_, wide_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_max_pool2d(const Layout& x, const Layout& values, const Layout& indices,
                                             const PoolParams& params) {
  if (x.dtype == ir::DType::Bool || values.dtype != x.dtype || indices.dtype != ir::DType::I64)
    throw TypeError("max_pool2d does not take these element types");
  return std::make_unique<MaxPool>(x, values, indices, params);
}

std::unique_ptr<LibraryCall> make_max_pool2d_grad(const Layout& gy, const Layout& indices, const Layout& gx,
                                                  const PoolParams& params) {
  if (gy.dtype != gx.dtype || indices.dtype != ir::DType::I64)
    throw TypeError("max_pool2d_grad does not take these element types");
  return std::make_unique<MaxPoolGrad>(gy, indices, gx, params);
}

}  // namespace lazuli::lowering
