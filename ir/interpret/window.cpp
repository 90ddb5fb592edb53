// Pooling over the last two dimensions.
#include "ir/rules/window.h"
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

struct Planes {
  int64_t count, height, width;
  explicit Planes(std::span<const int64_t> shape)
      : count(product(shape.first(shape.size() - 2))), height(shape[shape.size() - 2]), width(shape.back()) {}
  int64_t at(int64_t plane, int64_t row, int64_t column) const { return (plane * height + row) * width + column; }
};

// Calls f(flat result position, plane, row, column).
template <class F>
void for_each_window(const Planes& y, F f) {
  for (int64_t p = 0; p < y.count; ++p)
    for (int64_t r = 0; r < y.height; ++r)
      for (int64_t c = 0; c < y.width; ++c) f(y.at(p, r, c), p, r, c);
}

// The part of one dimension that an averaging window covers, and what it divides by.
struct Extent {
  int64_t begin, end, padded;
  Extent(const Window& w, int64_t position, int64_t size) {
    begin = position * w.stride - w.padding;
    end = std::min(begin + w.kernel, size + w.padding);
    padded = end - begin;
    begin = std::max<int64_t>(begin, 0);
    end = std::min(end, size);
  }
};

// Calls f(x position, y position, divisor) for each element of each averaging window.
template <class F>
void for_each_averaged(const Attrs& attrs, const Planes& x, const Planes& y, F f) {
  bool count_padding = attrs.number(4);
  int64_t override = attrs.number(5);
  for_each_window(y, [&](int64_t y_at, int64_t p, int64_t r, int64_t c) {
    Extent rows(avg_window(attrs, 0), r, x.height), columns(avg_window(attrs, 1), c, x.width);
    int64_t inside = (rows.end - rows.begin) * (columns.end - columns.begin);
    int64_t divisor = override ? override : count_padding ? rows.padded * columns.padded : inside;
    for (int64_t i = rows.begin; i < rows.end; ++i)
      for (int64_t k = columns.begin; k < columns.end; ++k) f(x.at(p, i, k), y_at, divisor);
  });
}

}  // namespace

void interpret_max_pool2d(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Planes x(in[0]->type.shape), y(out[0].type.shape);
  Window rows = max_window(node.attrs, 0), columns = max_window(node.attrs, 1);
  dispatch(compute_type(in[0]->type.dtype), [&]<class T>() {
    for_each_window(y, [&](int64_t y_at, int64_t p, int64_t r, int64_t c) {
      int64_t best = -1;
      T largest{};
      for (int64_t i = 0; i < rows.kernel; ++i)
        for (int64_t k = 0; k < columns.kernel; ++k) {
          int64_t row = r * rows.stride - rows.padding + i * rows.dilation;
          int64_t column = c * columns.stride - columns.padding + k * columns.dilation;
          if (row < 0 || row >= x.height || column < 0 || column >= x.width) continue;
          T e = load<T>(*in[0], x.at(p, row, column));
          if (best >= 0 && !(e > largest) && e == e) continue;  // the first of equals, the last NaN
          largest = e;
          best = row * x.width + column;
        }
      store<T>(out[0], y_at, largest);
      store<int64_t>(out[1], y_at, best);
    });
  });
}

void interpret_max_pool2d_grad(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  Planes y(in[0]->type.shape), x(out[0].type.shape);
  dispatch(compute_type(in[0]->type.dtype), [&]<class T>() {
    std::vector<Accumulator<T>> sums(static_cast<size_t>(out[0].type.numel()));
    for_each_window(y, [&](int64_t y_at, int64_t p, int64_t, int64_t) {
      int64_t at = load_index(*in[1], y_at);
      sums[static_cast<size_t>(p * x.height * x.width + at)] += static_cast<Accumulator<T>>(load<T>(*in[0], y_at));
    });
    for (size_t i = 0; i < sums.size(); ++i) store<T>(out[0], static_cast<int64_t>(i), static_cast<T>(sums[i]));
  });
}

void interpret_avg_pool2d(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  dispatch(compute_type(in[0]->type.dtype), [&]<class T>() {
    std::vector<Accumulator<T>> sums(static_cast<size_t>(out[0].type.numel()));
    std::vector<int64_t> divisors(sums.size(), 1);
    for_each_averaged(node.attrs, Planes(in[0]->type.shape), Planes(out[0].type.shape),
                      [&](int64_t x_at, int64_t y_at, int64_t divisor) {
                        sums[static_cast<size_t>(y_at)] += static_cast<Accumulator<T>>(load<T>(*in[0], x_at));
                        divisors[static_cast<size_t>(y_at)] = divisor;
                      });
    for (size_t i = 0; i < sums.size(); ++i)
      store<T>(out[0], static_cast<int64_t>(i), static_cast<T>(sums[i] / static_cast<Accumulator<T>>(divisors[i])));
  });
}

void interpret_avg_pool2d_grad(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  dispatch(compute_type(in[0]->type.dtype), [&]<class T>() {
    using A = Accumulator<T>;
    std::vector<A> sums(static_cast<size_t>(out[0].type.numel()));
    for_each_averaged(node.attrs, Planes(out[0].type.shape), Planes(in[0]->type.shape),
                      [&](int64_t x_at, int64_t y_at, int64_t divisor) {
                        A g = static_cast<A>(load<T>(*in[0], y_at));
                        sums[static_cast<size_t>(x_at)] += g / static_cast<A>(divisor);
                      });
    for (size_t i = 0; i < sums.size(); ++i) store<T>(out[0], static_cast<int64_t>(i), static_cast<T>(sums[i]));
  });
}

}  // namespace lazuli::ir
