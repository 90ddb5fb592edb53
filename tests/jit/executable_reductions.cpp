// Reductions with what stands around them: the patterns that must be one kernel.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

Floats softmax(const Floats& x, int64_t rows, int64_t n) {
  Floats out(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    float m = -INFINITY;
    double s = 0;
    for (int64_t i = 0; i < n; ++i) m = std::max(m, x[r * n + i]);
    for (int64_t i = 0; i < n; ++i) s += std::exp(x[r * n + i] - m);
    for (int64_t i = 0; i < n; ++i) out[r * n + i] = static_cast<float>(std::exp(x[r * n + i] - m) / s);
  }
  return out;
}

TEST(ExecutableReductions, SoftmaxIsOneKernel) {
  Model m;
  auto x = m.input({6, 3, 41});
  auto e = m.apply(Op::exp, {m.sub(x, m.apply(Op::amax, {x}, ir::Attrs{{2}, {1}}))});
  m.graph.outputs = {m.div(e, m.sum(e, ir::Dims{2}, true))};
  TestHost host;
  auto exe = jit::compile(m.graph, {});
  EXPECT_EQ(exe->stats().kernels, 1) << exe->plan_text();
  const Floats v = random_floats(6 * 3 * 41, 1, -5, 5);
  expect_close(run(*exe, host, m.graph, {buffer_of(host, v)}).floats[0], softmax(v, 18, 41));
}

TEST(ExecutableReductions, SoftmaxOverAnOuterDimensionIsOneKernel) {
  Model m;
  auto x = m.input({3, 20, 33});
  auto e = m.apply(Op::exp, {m.sub(x, m.apply(Op::amax, {x}, ir::Attrs{{1}, {1}}))});
  m.graph.outputs = {m.div(e, m.sum(e, ir::Dims{1}, true))};
  TestHost host;
  auto exe = jit::compile(m.graph, {});
  EXPECT_EQ(exe->stats().kernels, 1) << exe->plan_text();
  const Floats v = random_floats(3 * 20 * 33, 1, -5, 5);
  Floats rows, want(v.size());
  for (int a = 0; a < 3; ++a)
    for (int c = 0; c < 33; ++c)
      for (int b = 0; b < 20; ++b) rows.push_back(v[(a * 20 + b) * 33 + c]);
  rows = softmax(rows, 99, 20);
  for (int a = 0, i = 0; a < 3; ++a)
    for (int c = 0; c < 33; ++c)
      for (int b = 0; b < 20; ++b) want[(a * 20 + b) * 33 + c] = rows[i++];
  expect_close(run(*exe, host, m.graph, {buffer_of(host, v)}).floats[0], want);
}

TEST(ExecutableReductions, ColumnSumsOfAnElementwiseProductAreOneKernel) {
  Model m;
  auto x = m.input({50, 70}), y = m.input({50, 70});
  m.graph.outputs = {m.sum(m.mul(x, y), ir::Dims{0}, false)};
  TestHost host;
  auto exe = jit::compile(m.graph, {});
  EXPECT_EQ(exe->stats().kernels, 1) << exe->plan_text();
  const Floats a = random_floats(3500, 1), b = random_floats(3500, 2);
  Floats want(70, 0);
  for (int i = 0; i < 3500; ++i) want[i % 70] += a[i] * b[i];
  expect_close(run(*exe, host, m.graph, {buffer_of(host, a), buffer_of(host, b)}).floats[0], want);
}

TEST(ExecutableReductions, MeanOfEverything) {
  Model m;
  auto x = m.input({30, 40});
  m.graph.outputs = {m.mean(x, ir::Dims{0, 1}, false)};
  TestHost host;
  auto exe = jit::compile(m.graph, {});
  const Floats a = random_floats(1200, 1);
  double s = 0;
  for (float f : a) s += f;
  expect_close(run(*exe, host, m.graph, {buffer_of(host, a)}).floats[0], {static_cast<float>(s / 1200)});
}

}  // namespace
}  // namespace lazuli::testing
