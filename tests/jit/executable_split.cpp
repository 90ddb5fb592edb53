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

// What is summed over are five short dimensions that no collapsing makes long, as in the gradient of a normalization's
// weight between windows of an image.
TEST(ExecutableSplit, ShortDimensionsAreSplitToo) {
  constexpr int64_t kImages = 16, kSide = 4, kWindow = 7, kChannels = 24;
  const ir::Dims shape{kImages, kSide, kWindow, kSide, kWindow, kChannels};
  Model m;
  auto x = m.input(shape), gy = m.input({kImages, kSide, kSide, kWindow, kWindow, kChannels});
  auto back = m.permute(gy, ir::Dims{0, 1, 3, 2, 4, 5});
  m.graph.outputs = {m.sum(m.mul(x, back), ir::Dims{0, 1, 2, 3, 4}, false)};
  TestHost host;
  auto e = jit::compile(m.graph, with_threads(4));
  EXPECT_NE(e->plan_text().find("chunks"), std::string::npos) << e->plan_text();
  const int64_t n = ir::product(shape);
  const Floats a = random_floats(n, 1), b = random_floats(n, 2);
  std::vector<double> sums(kChannels);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t c = i % kChannels, v = i / kChannels % kWindow, col = i / (kChannels * kWindow) % kSide,
                  u = i / (kChannels * kWindow * kSide) % kWindow, outer = i / (kChannels * kWindow * kSide * kWindow);
    sums[c] += double(a[i]) * b[(((outer * kSide + col) * kWindow + u) * kWindow + v) * kChannels + c];
  }
  expect_close(run(*e, host, m.graph, {buffer_of(host, a), buffer_of(host, b)}).floats[0],
               Floats(sums.begin(), sums.end()), 1e-4f);
}

// What checks a sum is with the kernel that adds up the chunks.
TEST(ExecutableSplit, SumsAreCheckedAsIndices) {
  Model m;
  auto x = m.input({200000, 2}), table = m.input({4});
  auto index = m.convert(m.sum(x, ir::Dims{0}, false), ir::DType::I64);
  m.at_line("model.py:7");
  m.graph.outputs = {m.apply(Op::index_select, {table, index}, ir::Attrs{{0}})};
  TestHost host;
  auto e = jit::compile(m.graph, with_threads(4));
  EXPECT_NE(e->plan_text().find("chunks"), std::string::npos) << e->plan_text();
  Floats ones(400000, 0);
  ones[0] = 3, ones[7] = 1;
  const Floats numbers{5, 6, 7, 8};
  expect_close(run(*e, host, m.graph, {buffer_of(host, ones), buffer_of(host, numbers)}).floats[0], {8, 6});
  ones[8] = 1;
  EXPECT_THROW(run(*e, host, m.graph, {buffer_of(host, ones), buffer_of(host, numbers)}), jit::ExecutionError);
}

TEST(ExecutableSplit, ManyRowsAreNotSplit) {
  Model m;
  auto x = m.input({5000, 64});
  m.graph.outputs = {m.sum(x, ir::Dims{1}, false)};
  EXPECT_EQ(jit::compile(m.graph, with_threads(4))->stats().kernels, 1);
}

}  // namespace
}  // namespace lazuli::testing
