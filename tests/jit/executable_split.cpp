// Reductions to few elements are cut into chunks, so that every thread has a share.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

jit::CompileOptions with_threads(int n) {
  jit::CompileOptions o;
  o.threads = n;
  return o;
}

TEST(ExecutableSplit, SumOfEverythingRunsInChunks) {
  Model m;
  auto x = m.input({1001, 333});
  m.graph.outputs = {m.mean(m.mul(x, x), ir::Dims{0, 1}, false)};
  TestHost host;
  auto e = jit::compile(m.graph, with_threads(4));
  EXPECT_EQ(e->stats().kernels, 2) << e->plan_text();
  EXPECT_NE(e->plan_text().find("chunks"), std::string::npos);
  const Floats v = random_floats(1001 * 333);
  double s = 0;
  for (float f : v) s += double(f) * f;
  expect_close(run(*e, host, m.graph, {buffer_of(host, v)}).floats[0], {static_cast<float>(s / (1001 * 333))});
}

TEST(ExecutableSplit, BiasGradientAndItsProducerShareTheWalk) {
  Model m;
  auto gy = m.input({3001, 40}), x = m.input({3001, 40});
  auto gx = m.mul(gy, x);
  m.graph.outputs = {m.sum(gx, ir::Dims{0}, false), gx, m.apply(Op::amax, {gx}, ir::Attrs{{0}, {0}})};
  TestHost host;
  auto e = jit::compile(m.graph, with_threads(4));
  EXPECT_EQ(e->stats().kernels, 2) << e->plan_text();
  const Floats a = random_floats(3001 * 40, 1), b = random_floats(3001 * 40, 2);
  Floats sums(40), most(40, -2), product;
  for (int i = 0; i < 3001 * 40; ++i) {
    product.push_back(a[i] * b[i]);
    sums[i % 40] += product.back();
    most[i % 40] = std::max(most[i % 40], product.back());
  }
  auto r = run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b)});
  expect_close(r.floats[0], sums, 1e-4f);
  expect_close(r.floats[1], product);
  expect_close(r.floats[2], most);
}

TEST(ExecutableSplit, ManyRowsAreNotSplit) {
  Model m;
  auto x = m.input({5000, 64});
  m.graph.outputs = {m.sum(x, ir::Dims{1}, false)};
  EXPECT_EQ(jit::compile(m.graph, with_threads(4))->stats().kernels, 1);
}

}  // namespace
}  // namespace lazuli::testing
