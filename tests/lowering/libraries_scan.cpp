// Running sums and products, and linear recurrences, against one step at a time.
#include "lowering/libraries/scan.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::layout;
using testing::Tensor;

constexpr DType kTypes[] = {DType::I32, DType::I64, DType::F16, DType::BF16, DType::F32, DType::F64};

// Each element from the one before along dim, in float64; the first has none before it: null.
template <class F>
Tensor one_by_one(const Tensor& like, int64_t dim, bool reverse, F next) {
  Tensor y(layout(DType::F64, like.layout.shape));
  auto visit = [&](const Dims& at) {
    Dims before = at;
    before[dim] += reverse ? 1 : -1;
    const bool is_first = before[dim] < 0 || before[dim] == like.layout.shape[dim];
    y.set(at, next(at, before, is_first ? nullptr : &y));
  };
  if (!reverse) {
    y.each(visit);
    return y;
  }
  std::vector<Dims> places;
  y.each([&](const Dims& at) { places.push_back(at); });
  for (size_t i = places.size(); i-- > 0;) visit(places[i]);
  return y;
}

using Make = std::unique_ptr<LibraryCall> (*)(const Layout&, const Layout&, int64_t);

void check(Make make, bool product, DType t, const Dims& shape, int64_t dim, std::vector<size_t> order, bool in_place) {
  const bool floating = ir::is_floating(t);
  const double low = !floating ? 0 : product ? 0.75 : -1, high = !floating ? 3 : product ? 1.25 : 1;
  Tensor x = Tensor::random(layout(t, shape, order), 1, low, high), out(layout(t, shape)), input = x;
  if (product && !floating)  // mostly ones: the product stays small
    input.each([&](const Dims& at) { x.set(at, at[dim] % 8 == 3 ? input.get(at) : 1); }), input = x;
  const Tensor want = one_by_one(x, dim, false, [&](const Dims& at, const Dims& before, const Tensor* y) {
    if (!y) return input.get(at);
    return product ? y->get(before) * input.get(at) : y->get(before) + input.get(at);
  });
  Tensor& result = in_place ? x : out;
  testing::run(*make(x.layout, result.layout, dim), {&x}, {&result});
  testing::expect_close(result, [&](const Dims& at) { return want.get(at); }, floating ? 4 : 0, "a running total");
}

TEST(LibrariesScan, RunningTotalsAlongEveryDimension) {
  for (const auto& [make, product] : {std::pair{Make{make_cumsum}, false}, std::pair{Make{make_cumprod}, true}})
    for (DType t : kTypes)
      for (int64_t dim : {0, 1, 2})
        for (bool in_place : {false, true}) {
          check(make, product, t, {5, 30, 70}, dim, {}, in_place);
          check(make, product, t, {5, 30, 70}, dim, {2, 0, 1}, in_place);
          check(make, product, t, {0, 3, 2}, dim, {}, in_place);
        }
}

// `over`: whose memory the result has, if anybody's.
void check_recurrence(DType t, const Dims& shape, int64_t dim, bool reverse, std::vector<size_t> order, int over) {
  Tensor a = Tensor::random(layout(t, shape, order), 1, -1, 1), b = Tensor::random(layout(t, shape, order), 2, -1, 1),
         out(layout(t, shape));
  const Tensor factors = a, terms = b;
  const Tensor want = one_by_one(a, dim, reverse, [&](const Dims& at, const Dims& before, const Tensor* y) {
    return terms.get(at) + (y ? factors.get(reverse ? before : at) * y->get(before) : 0);
  });
  Tensor& result = over == 0 ? a : over == 1 ? b : out;
  testing::run(*make_linear_recurrence(a.layout, b.layout, result.layout, dim, reverse), {&a, &b}, {&result});
  testing::expect_close(result, [&](const Dims& at) { return want.get(at); }, 8, "a linear recurrence");
}

TEST(LibrariesScan, LinearRecurrencesAlongEveryDimension) {
  for (DType t : kTypes)
    for (int64_t dim : {0, 1, 2})
      for (bool reverse : {false, true})
        for (int over : {-1, 0, 1}) {
          if (!ir::is_floating(t)) continue;
          check_recurrence(t, {5, 30, 70}, dim, reverse, {}, over);
          check_recurrence(t, {5, 30, 70}, dim, reverse, {2, 0, 1}, over);
          check_recurrence(t, {0, 3, 2}, dim, reverse, {}, over);
        }
}

// What the first element's factor is, nobody reads.
TEST(LibrariesScan, LinearRecurrenceLeavesOutTheFirstFactor) {
  for (bool reverse : {false, true}) {
    Tensor a = Tensor::random(layout(DType::F32, {6}), 1), b = Tensor::random(layout(DType::F32, {6}), 2),
           out(layout(DType::F32, {6}));
    a.set({0}, std::nan(""));
    testing::run(*make_linear_recurrence(a.layout, b.layout, out.layout, 0, reverse), {&a, &b}, {&out});
    out.each([&](const Dims& at) { EXPECT_TRUE(std::isfinite(out.get(at))); });
  }
}

TEST(LibrariesScan, IntegersWrap) {
  Tensor x(layout(DType::I64, {70}));
  x.each([&](const Dims& at) { x.set(at, 3); });
  testing::run(*make_cumprod(x.layout, x.layout, 0), {&x}, {&x});
  uint64_t want = 1;
  for (int i = 0; i < 70; ++i) want *= 3;
  EXPECT_EQ(static_cast<const int64_t*>(x.data())[69], static_cast<int64_t>(want));
}

}  // namespace
}  // namespace lazuli::lowering
