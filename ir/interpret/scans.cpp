// Running sums and products, and linear recurrences.
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

// Calls f(flat position of the element, of the one before it) along dim, from either end; the first has none before
// it: -1.
template <class F>
void for_each_along(const Node& node, std::span<const int64_t> shape, bool reverse, F f) {
  const auto dim = static_cast<size_t>(node.attrs.number(0));
  const int64_t inner = product(shape.subspan(dim + 1)), size = shape[dim], outer = product(shape.first(dim));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < inner; ++k)
      for (int64_t i = 0, before = -1; i < size; ++i) {
        const int64_t at = (o * size + (reverse ? size - 1 - i : i)) * inner + k;
        f(at, before);
        before = at;
      }
}

template <class Combine>
void interpret_running(const Node& node, const Tensor& x, Tensor& y, Combine combine) {
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    Accumulator<T> so_far{};
    for_each_along(node, x.type.shape, false, [&](int64_t at, int64_t before) {
      const auto next = static_cast<Accumulator<T>>(load<T>(x, at));
      so_far = before < 0 ? next : static_cast<Accumulator<T>>(combine(so_far, next));
      store<T>(y, at, static_cast<T>(so_far));
    });
  });
}

}  // namespace

void interpret_cumsum(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  interpret_running(node, *in[0], out[0], [](auto a, auto b) { return a + b; });
}

void interpret_cumprod(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  interpret_running(node, *in[0], out[0], [](auto a, auto b) { return a * b; });
}

void interpret_linear_recurrence(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const bool reverse = node.attrs.number(1) != 0;
  dispatch(compute_type(in[0]->type.dtype), [&]<class T>() {
    Accumulator<T> y{};
    for_each_along(node, in[0]->type.shape, reverse, [&](int64_t at, int64_t before) {
      const auto b = static_cast<Accumulator<T>>(load<T>(*in[1], at));
      y = before < 0 ? b
                     : static_cast<Accumulator<T>>(
                           b + static_cast<Accumulator<T>>(load<T>(*in[0], reverse ? before : at)) * y);
      store<T>(out[0], at, static_cast<T>(y));
    });
  });
}

}  // namespace lazuli::ir
