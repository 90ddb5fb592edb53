#include "lowering/libraries/scan.h"
#include <algorithm>
#include <vector>
#include "lowering/libraries/elements.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

template <class T>
using Sum = std::conditional_t<std::is_same_v<T, float>, double, Compute<T>>;

class CumulativeSum final : public LibraryCall {
 public:
  CumulativeSum(const Layout& x, const Layout& out, int64_t dim) : x_(x), out_(out), dim_(static_cast<size_t>(dim)) {
    if (x.dtype != out.dtype || x.shape != out.shape || dim_ >= x.shape.size())
      throw TypeError("cumsum: the result does not fit");
    // The innermost other dimension, if it is innermost.
    lane_ = dim_ + 1 == x.shape.size() ? dim_ : x.shape.size() - 1;
    for (size_t d = 0; d < x.shape.size(); ++d)
      if (d != dim_ && d != lane_) outer_ *= x.shape[d];
  }
  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(x_.dtype, [&](auto e) {
      using T = decltype(e);
      if constexpr (!std::is_same_v<T, bool>)
        run_typed(static_cast<const T*>(operands[0]), static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return "cumsum"; }

 private:
  static constexpr int64_t kBlock = 64;  // lanes that are summed side by side

  template <class T>
  void run_typed(const T* x, T* out) const {
    const int64_t lanes = lane_ == dim_ ? ir::Size(1) : x_.shape[lane_], blocks = (lanes + kBlock - 1) / kBlock;
    share_out(outer_ * blocks, outer_ * lanes * x_.shape[dim_] > 8192, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u % blocks * kBlock, n = std::min(kBlock, lanes - first);
        int64_t rest = u / blocks, from = 0, to = 0;
        for (size_t d = x_.shape.size(); d-- > 0;) {
          if (d == dim_ || d == lane_) continue;
          from += rest % x_.shape[d] * x_.strides[d], to += rest % x_.shape[d] * out_.strides[d];
          rest /= x_.shape[d];
        }
        const int64_t from_step = lane_ == dim_ ? ir::Size(0) : x_.strides[lane_],
                      to_step = lane_ == dim_ ? ir::Size(0) : out_.strides[lane_];
        sum_block(x + from + first * from_step, out + to + first * to_step, from_step, to_step, n);
      }
    });
  }
  template <class T>
  void sum_block(const T* x, T* out, int64_t from_step, int64_t to_step, int64_t n) const {
    Sum<T> sum[kBlock] = {};
    for (int64_t i = 0; i < x_.shape[dim_]; ++i, x += x_.strides[dim_], out += out_.strides[dim_])
      for (int64_t l = 0; l < n; ++l) {
        sum[l] = static_cast<Sum<T>>(sum[l] + static_cast<Sum<T>>(x[l * from_step]));
        out[l * to_step] = static_cast<T>(sum[l]);
      }
  }

  Layout x_, out_;
  size_t dim_, lane_;
  int64_t outer_ = 1;
};

}  // namespace

std::unique_ptr<LibraryCall> make_cumsum(const Layout& x, const Layout& out, int64_t dim) {
  if (x.dtype == ir::DType::Bool || !ir::is_native(x.dtype)) throw TypeError("cumsum does not take this element type");
  return std::make_unique<CumulativeSum>(x, out, dim);
}

}  // namespace lazuli::lowering
