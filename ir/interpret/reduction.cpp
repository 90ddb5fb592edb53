// Reductions: every element of the operand is folded into the result element that it belongs to, in row-major order.
#include <limits>
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

// Strides that take an operand's index to the result element.
Dims result_strides(const Node& node, const Tensor& x) {
  Dims kept = x.type.shape;
  for (int64_t d : node.attrs.list(0)) kept[d] = 1;
  Dims strides = contiguous_strides(kept);
  for (int64_t d : node.attrs.list(0)) strides[d] = 0;
  return strides;
}

// Folds by step(accumulator, element, position) from `first`, in Acc; `finish` makes the result.
template <class T, class Acc, class R, class Step, class Finish>
void fold(const Node& node, const Tensor& x, Tensor& y, Acc first, Step step, Finish finish) {
  struct Slot {  // so that a vector of bool is one of bools
    Acc value;
  };
  std::vector<Slot> acc(static_cast<size_t>(y.type.numel()), Slot{first});
  Dims strides = result_strides(node, x);
  for_each(x.type.shape, [&](int64_t flat, std::span<const int64_t> index) {
    Acc& a = acc[static_cast<size_t>(dot(index, strides))].value;
    a = step(a, load<T>(x, flat), index);
  });
  for (size_t i = 0; i < acc.size(); ++i) store<R>(y, static_cast<int64_t>(i), finish(acc[i].value));
}

template <class Step>
void accumulate(const Node& node, const Tensor& x, Tensor& y, double first, Step step) {
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    using A = Accumulator<T>;
    fold<T, A, T>(
        node, x, y, static_cast<A>(first), [&](A a, T e, auto) { return step(a, static_cast<A>(e)); },
        [](A a) { return static_cast<T>(a); });
  });
}

template <class T>
struct Best {
  T value{};
  int64_t position = -1;
};

// The first element that beats every other; a NaN beats all numbers.
template <class R, class Wins, class Finish>
void select_best(const Node& node, const Tensor& x, Tensor& y, Wins wins, Finish finish) {
  Dims inner = x.type.shape, along(inner.size(), 0);
  Dims folded;
  for (int64_t d : node.attrs.list(0)) folded.push_back(inner[d]);
  Dims folded_strides = contiguous_strides(folded);
  for (size_t i = 0; i < folded.size(); ++i) along[node.attrs.list(0)[i]] = folded_strides[i];
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    using Result = std::conditional_t<std::is_void_v<R>, T, R>;
    auto step = [&](Best<T> best, T e, std::span<const int64_t> index) {
      bool first_nan = e != e && best.value == best.value;
      bool better = best.position < 0 || first_nan || (best.value == best.value && wins(e, best.value));
      return better ? Best<T>{e, dot(index, along)} : best;
    };
    fold<T, Best<T>, Result>(node, x, y, Best<T>{}, step, [&](Best<T> b) { return static_cast<Result>(finish(b)); });
  });
}

template <class Wins>
void extremum(const Node& node, const Tensor& x, Tensor& y, Wins wins) {
  select_best<void>(node, x, y, wins, [](auto best) { return best.value; });
}
template <class Wins>
void arg_extremum(const Node& node, const Tensor& x, Tensor& y, Wins wins) {
  select_best<int64_t>(node, x, y, wins, [](auto best) { return best.position; });
}

void truth(const Node& node, const Tensor& x, Tensor& y, bool all) {
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    fold<T, bool, bool>(
        node, x, y, all, [&](bool a, T e, auto) { return all ? a && e != T(0) : a || e != T(0); },
        [](bool a) { return a; });
  });
}

constexpr auto kLarger = [](auto a, auto b) { return a > b; };
constexpr auto kSmaller = [](auto a, auto b) { return a < b; };

}  // namespace

void interpret_reduction(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor& x = *in[0];
  Tensor& y = out[0];
  switch (info(node.op).combine) {
    case Combine::Sum:
      return accumulate(node, x, y, 0, [](auto a, auto e) { return a + e; });
    case Combine::Prod:
      return accumulate(node, x, y, 1, [](auto a, auto e) { return a * e; });
    case Combine::Max:
      return extremum(node, x, y, kLarger);
    case Combine::Min:
      return extremum(node, x, y, kSmaller);
    case Combine::Any:
      return truth(node, x, y, false);
    case Combine::All:
      return truth(node, x, y, true);
    case Combine::ArgMax:
      return arg_extremum(node, x, y, kLarger);
    case Combine::ArgMin:
      return arg_extremum(node, x, y, kSmaller);
  }
}

}  // namespace lazuli::ir
