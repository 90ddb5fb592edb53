#include "lowering/libraries/scan.h"
#include <algorithm>
#include <array>
#include <functional>
#include "lowering/libraries/elements.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

// What is kept from one element to the next. Integers wrap.
template <class T>
using Kept = std::conditional_t<std::is_same_v<T, float>, double,
                                std::conditional_t<std::is_integral_v<T>, uint64_t, Compute<T>>>;

// Lines that are walked side by side: where their elements lie side by side, and elsewhere, where several hide how long
// each step waits for the one before, and many would lie in the same lines of the cache.
constexpr int64_t kBlock = 64, kApart = 4;

// A block of lines: the first element of each operand's and of the result's, and how far it is to the next element, and
// to the next line. A step may be negative.
template <class T, size_t count>
struct Lines {
  std::array<const T*, count> in;
  T* out;
  std::array<int64_t, count> in_step, in_line;
  int64_t out_step, out_line, size, lines;
};

template <class Combination>
struct Running {
  static constexpr size_t kOperands = 1;
  static constexpr bool kFromTheEnd = false;
  template <class T, int64_t lines>
  static void walk(Lines<T, 1> w) {
    // A step of one cycle hides nothing.
    if constexpr (std::is_integral_v<T> && std::is_same_v<Combination, std::plus<>> && lines == kApart) {
      for (int64_t l = 0; l < lines; ++l, w.in[0] += w.in_line[0], w.out += w.out_line) {
        Kept<T> sum = 0;
        for (int64_t i = 0; i < w.size; ++i)
          w.out[i * w.out_step] = static_cast<T>(sum += static_cast<Kept<T>>(w.in[0][i * w.in_step[0]]));
      }
      return;
    }
    Kept<T> kept[lines ? lines : kBlock] = {};
    const int64_t n = lines ? lines : w.lines;
    for (int64_t i = 0; i < w.size; ++i, w.in[0] += w.in_step[0], w.out += w.out_step)
      for (int64_t l = 0; l < n; ++l) {
        const auto x = static_cast<Kept<T>>(w.in[0][l * w.in_line[0]]);
        kept[l] = i == 0 ? x : Combination()(kept[l], x);
        w.out[l * w.out_line] = static_cast<T>(kept[l]);
      }
  }
};
template <bool reverse>
struct Recurrence {
  static constexpr size_t kOperands = 2;
  static constexpr bool kFromTheEnd = reverse;
  template <class T, int64_t lines>
  static void walk(Lines<T, 2> w) {
    const int64_t n = lines ? lines : w.lines;
    Kept<T> kept[lines ? lines : kBlock] = {}, factors[lines ? lines : kBlock] = {};  // a, one element before
    for (int64_t i = 0; i < w.size; ++i, w.in[0] += w.in_step[0], w.in[1] += w.in_step[1], w.out += w.out_step)
      for (int64_t l = 0; l < n; ++l) {
        const auto a = static_cast<Kept<T>>(w.in[0][l * w.in_line[0]]),
                   b = static_cast<Kept<T>>(w.in[1][l * w.in_line[1]]);
        kept[l] = i == 0 ? b : b + (reverse ? factors[l] : a) * kept[l];
        factors[l] = a;
        w.out[l * w.out_line] = static_cast<T>(kept[l]);
      }
  }
};

template <class Rule>
class Scan final : public LibraryCall {
 public:
  static constexpr size_t kOperands = Rule::kOperands;

  Scan(std::string name, std::array<Layout, kOperands> in, const Layout& out, int64_t dim)
      : name_(std::move(name)), in_(std::move(in)), out_(out), dim_(static_cast<size_t>(dim)) {
    for (const Layout& x : in_)
      if (x.dtype != out.dtype || x.shape != out.shape || dim_ >= x.shape.size() || x.dtype == ir::DType::Bool ||
          !ir::is_native(x.dtype))
        throw TypeError(name_ + " does not take this element type or shape");
    // The innermost other dimension; if it is not the innermost of all, one of several lines.
    const size_t rank = out.shape.size();
    block_ = dim_ + 1 == rank ? kApart : kBlock;
    lane_ = dim_ + 1 < rank ? rank - 1 : rank == 1 ? dim_ : rank - 2;
    for (size_t d = 0; dim_ + 1 == rank && d < dim_; ++d)
      if (out.shape[d] >= kApart) lane_ = d;
    for (size_t d = 0; d < out.shape.size(); ++d)
      if (d != dim_ && d != lane_) outer_ *= out.shape[d];
  }
  void run(const void* const* operands, void* const* results, void*) override {
    with_element_type(out_.dtype, [&](auto e) {
      using T = decltype(e);
      if constexpr (kOperands == 1 ? !std::is_same_v<T, bool> : is_floating_element<T>)
        run_typed<T>(operands, static_cast<T*>(results[0]));
    });
  }
  std::string describe() const override { return name_; }

 private:
  template <class T>
  void run_typed(const void* const* in, T* out) const {
    const ir::Dims& shape = out_.shape;
    const int64_t size = shape[dim_], lanes = lane_ == dim_ ? int64_t{1} : int64_t{shape[lane_]},
                  blocks = (lanes + block_ - 1) / block_, start = Rule::kFromTheEnd ? size - 1 : int64_t{0};
    auto line_step = [&](const Layout& x) { return lane_ == dim_ ? int64_t{0} : int64_t{x.strides[lane_]}; };
    auto step = [&](const Layout& x) { return int64_t{x.strides[dim_]} * (Rule::kFromTheEnd ? -1 : 1); };
    share_out(outer_ * blocks, outer_ * lanes * size > 8192, [&](int64_t begin, int64_t end, int) {
      for (int64_t u = begin; u < end; ++u) {
        const int64_t first = u % blocks * block_;
        auto offset = [&](const Layout& x) {
          int64_t at = start * x.strides[dim_] + first * line_step(x), rest = u / blocks;
          for (size_t d = shape.size(); d-- > 0;) {
            if (d == dim_ || d == lane_) continue;
            at += rest % shape[d] * x.strides[d];
            rest /= shape[d];
          }
          return at;
        };
        Lines<T, kOperands> lines{};
        for (size_t k = 0; k < kOperands; ++k) {
          lines.in[k] = static_cast<const T*>(in[k]) + offset(in_[k]);
          lines.in_step[k] = step(in_[k]), lines.in_line[k] = line_step(in_[k]);
        }
        lines.out = out + offset(out_);
        lines.out_step = step(out_), lines.out_line = line_step(out_);
        lines.size = size, lines.lines = std::min(block_, lanes - first);
        if (lines.lines == kApart)
          Rule::template walk<T, kApart>(lines);
        else
          Rule::template walk<T, 0>(lines);
      }
    });
  }

  const std::string name_;
  const std::array<Layout, kOperands> in_;
  const Layout out_;
  const size_t dim_;
  size_t lane_;
  int64_t outer_ = 1, block_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_cumsum(const Layout& x, const Layout& out, int64_t dim) {
  return std::make_unique<Scan<Running<std::plus<>>>>("cumsum", std::array{x}, out, dim);
}

std::unique_ptr<LibraryCall> make_cumprod(const Layout& x, const Layout& out, int64_t dim) {
  return std::make_unique<Scan<Running<std::multiplies<>>>>("cumprod", std::array{x}, out, dim);
}

std::unique_ptr<LibraryCall> make_linear_recurrence(const Layout& a, const Layout& b, const Layout& out, int64_t dim,
                                                    bool reverse) {
  if (!ir::is_floating(out.dtype)) throw TypeError("a linear recurrence is of floating-point numbers");
  if (reverse) return std::make_unique<Scan<Recurrence<true>>>("linear_recurrence", std::array{a, b}, out, dim);
  return std::make_unique<Scan<Recurrence<false>>>("linear_recurrence", std::array{a, b}, out, dim);
}

}  // namespace lazuli::lowering
