// Kernels over memory whose elements come in pairs, as complex numbers do: which accesses are walked by whole vectors,
// and that any sizes come out right.
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;
using lowering::kAlone;
using lowering::VectorStride;

struct Pairs {
  Model m;
  int64_t n;
  explicit Pairs(int64_t count) : n(count) {}
  // Every second element, from `first` on.
  Value part(Value x, int64_t first, int64_t step = 2) {
    return m.emit(Op::slice, {x}, ir::Attrs{{first}, {n}, {step}});
  }
  Value together(Value a, Value b) {
    const Value x = m.reshape(a, ir::Dims{n, 1}), y = m.reshape(b, ir::Dims{n, 1});
    return m.reshape(m.emit(Op::cat, {x, y}, ir::Attrs{{1}}), ir::Dims{2 * n});
  }
};

std::vector<lowering::Access> accesses_of(const ir::Graph& graph) {
  const lowering::Plan plan = lowering::make_plan(graph, {});
  EXPECT_EQ(plan.steps.size(), 1u);
  return plan.steps[0].loops.nest.accesses;
}

TEST(Pairs, OfLoadsAndOfStoresLieBesideEachOther) {
  Pairs p(40);
  const Value x = p.m.input({80}), re = p.part(x, 0), im = p.part(x, 1);
  p.m.graph.outputs = {p.together(p.m.mul(re, im), p.m.sub(re, im))};
  int stores = 0, loads = 0;
  const auto accesses = accesses_of(p.m.graph);
  for (const lowering::Access& a : accesses) {
    EXPECT_EQ(a.stride, VectorStride::Two);
    if (a.after == kAlone) continue;
    EXPECT_EQ(accesses[a.after].store, a.store);
    (a.store ? stores : loads) += 1;
  }
  EXPECT_EQ(stores, 1);
  EXPECT_EQ(loads, 1);
}

TEST(Pairs, AreNoneWhereOnlyOnePartIsReadOrOthersLieBetween) {
  Pairs p(40);
  const Value x = p.m.input({80}), y = p.m.input({120});
  p.m.graph.outputs = {p.m.add(p.part(x, 1), p.m.mul(p.part(y, 0, 3), p.part(y, 1, 3)))};
  for (const lowering::Access& a : accesses_of(p.m.graph)) EXPECT_EQ(a.after, kAlone);
}

TEST(Pairs, OfAnySizeAndType) {
  const auto check = []<class T>(DType type, T) {
    for (int64_t n : {1, 2, 7, 8, 15, 16, 17, 33, 64, 70, 200}) {
      Pairs p(n);
      TestHost host;
      const Value x = p.m.input(type, {2 * n}), y = p.m.input(type, {2 * n});
      const Value a = p.part(x, 0), b = p.part(x, 1), c = p.part(y, 0);
      p.m.graph.outputs = {p.together(p.m.sub(p.m.mul(a, c), b), p.m.add(p.m.mul(b, c), a))};
      std::vector<T> xs(static_cast<size_t>(2 * n)), ys(xs.size()), want(xs.size());
      for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<T>(i % 7), ys[i] = static_cast<T>(i % 5);
      for (size_t i = 0; i < xs.size(); i += 2) {
        want[i] = static_cast<T>(xs[i] * ys[i] - xs[i + 1]);
        want[i + 1] = static_cast<T>(xs[i + 1] * ys[i] + xs[i]);
      }
      auto e = jit::compile(p.m.graph, {});
      EXPECT_EQ(e->stats().kernels, 1);
      const Ran ran = run(*e, host, p.m.graph, {buffer_of(host, xs), buffer_of(host, ys)});
      EXPECT_EQ(values_of<T>(ran.outputs[0]), want) << ir::name(type) << " " << n;
    }
  };
  check(DType::F32, float{});
  check(DType::F64, double{});
  check(DType::I64, int64_t{});
  check(DType::I16, int16_t{});
  check(DType::U8, uint8_t{});
}

// The rows of [rows, n] `times` times each, and their elements `copies` times; `numbered`: plus the number of the copy.
template <class T>
void check_copies(DType type, int64_t rows, int64_t n, int64_t times, int64_t copies, bool numbered = false) {
  Model m;
  TestHost host;
  const Value x = m.input(type, {rows, n});
  const ir::Dims whole{rows, times, n, copies};
  Value y = m.broadcast(m.reshape(m.mul(x, x), ir::Dims{rows, 1, n, 1}), whole);
  if (numbered) {
    const Value number = m.emit(Op::iota, std::span<const Value>(), ir::Attrs{{copies}});
    y = m.add(y, m.broadcast(m.convert(m.reshape(number, ir::Dims{1, 1, 1, copies}), type), whole));
  }
  m.graph.outputs = {m.reshape(y, ir::Dims{rows * times, n * copies})};
  std::vector<T> xs(static_cast<size_t>(rows * n)), want;
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = static_cast<T>(i % 11);
  for (int64_t r = 0; r < rows * times; ++r)
    for (int64_t i = 0; i < n * copies; ++i) {
      const T v = xs[static_cast<size_t>(r / times * n + i / copies)];
      want.push_back(static_cast<T>(v * v + (numbered ? i % copies : 0)));
    }
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1);
  const Ran ran = run(*e, host, m.graph, {buffer_of(host, xs)});
  EXPECT_EQ(values_of<T>(ran.outputs[0]), want) << ir::name(type) << " " << rows << " " << n << " " << times;
}

TEST(Pairs, OfTwoCopiesOfAnElement) {
  for (auto [rows, n, times] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {1, 16, 1}, {1, 17, 2}, {3, 5, 2}, {2, 33, 1}, {40, 64, 2}, {1, 3000, 1}, {7, 1, 3}}) {
    check_copies<float>(DType::F32, rows, n, times, 2);
    check_copies<double>(DType::F64, rows, n, times, 2);
    check_copies<int64_t>(DType::I64, rows, n, times, 2);
    check_copies<int16_t>(DType::I16, rows, n, times, 2);
    check_copies<uint8_t>(DType::U8, rows, n, times, 2);
    check_copies<float>(DType::F32, rows, n, times, 3);
    check_copies<float>(DType::F32, rows, n, times, 2, true);
  }
}

TEST(Pairs, AreTwoStoresInPlaceOfADimension) {
  Model m;
  const Value x = m.reshape(m.input({24, 8}), ir::Dims{24, 1, 8, 1});
  m.graph.outputs = {m.reshape(m.broadcast(x, ir::Dims{24, 2, 8, 2}), ir::Dims{48, 16})};
  const lowering::Plan plan = lowering::make_plan(m.graph, {});
  ASSERT_EQ(plan.steps.size(), 1u);
  const lowering::LoopNest& nest = plan.steps[0].loops.nest;
  EXPECT_EQ(nest.rank, 3);
  ASSERT_EQ(nest.accesses.size(), 3u);
  EXPECT_EQ(nest.accesses[0].stride, VectorStride::One);
  EXPECT_EQ(nest.accesses[2].after, 1);
}

}  // namespace
}  // namespace lazuli::testing
