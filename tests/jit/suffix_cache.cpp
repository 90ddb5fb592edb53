// Graphs that end alike share that end's executable, and compute what they would alone.
#include "jit/suffix_cache.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

constexpr int64_t kWidth = 6;
constexpr int kUpdates = 10, kSuffix = kUpdates + 1;  // a step's last nodes, whose sizes do not depend on the batch

// A gradient of a batch with `rows` rows, and updates of as many weights with it; of each weight its last value, and the
// gradient, come out. With `reshaped`, the updates read weights through views that the first part makes.
ir::Graph training_step(int64_t rows, bool reshaped = false) {
  Model m;
  auto x = m.input({rows, kWidth});
  std::vector<ir::Value> weights;
  for (int i = 0; i < kUpdates; ++i) weights.push_back(m.input({kWidth}));
  auto h = x;
  for (ir::Value w : weights) h = m.apply(Op::tanh, {m.mul(h, w)});
  std::vector<ir::Value> read;
  for (ir::Value w : weights) read.push_back(reshaped ? m.reshape(m.reshape(w, ir::Dims{2, 3}), ir::Dims{kWidth}) : w);
  auto gradient = m.apply(Op::sum, {h}, ir::Attrs{{0}, {0}});
  m.graph.outputs = {gradient};
  for (ir::Value w : read) m.graph.outputs.push_back(m.apply(Op::sub, {w, m.mul(gradient, 0.5)}));
  m.graph.donated.assign(kUpdates + 1, true);
  return m.graph;
}

std::vector<jit::Buffer> inputs_of(TestHost& host, int64_t rows) {
  std::vector<jit::Buffer> in{buffer_of(host, random_floats(rows * kWidth, 7))};
  for (int i = 0; i < kUpdates; ++i) in.push_back(buffer_of(host, random_floats(kWidth, 8 + static_cast<uint32_t>(i))));
  return in;
}

// Runs a step through the cache, and as it would run alone; gives how many nodes were there already.
int64_t expect_same(jit::SuffixCache& cache, int64_t rows, bool reshaped = false, bool donate = false) {
  TestHost host;
  const ir::Graph graph = training_step(rows, reshaped);
  auto alone = jit::compile(graph, {}), shared = cache.compile(graph, {});
  {
    const auto in = inputs_of(host, rows);
    const Ran want = run(*alone, host, graph, in);
    const Ran got = run(*shared, host, graph, donate ? inputs_of(host, rows) : in, {}, donate);
    EXPECT_EQ(got.floats, want.floats);
    EXPECT_EQ(run(*shared, host, graph, in).floats, want.floats) << "inputs that were not donated are as they were";
  }
  EXPECT_EQ(host.live, 0);
  return shared->stats().reused_nodes;
}

TEST(SuffixCache, OtherSizesReuseTheEnd) {
  jit::SuffixCache cache;
  EXPECT_EQ(expect_same(cache, 5), 0);
  EXPECT_EQ(expect_same(cache, 9), 0) << "the end is found, and has no executable of its own yet";
  EXPECT_EQ(expect_same(cache, 12), kSuffix);
  EXPECT_EQ(expect_same(cache, 31), kSuffix);
}

TEST(SuffixCache, DonatedInputs) {
  jit::SuffixCache cache;
  for (int64_t rows : {5, 9, 12, 14}) expect_same(cache, rows, false, true);
}

TEST(SuffixCache, WhatIsHandedOverMayBeAnInput) {
  jit::SuffixCache cache;
  for (int64_t rows : {5, 9, 12, 14}) expect_same(cache, rows, true, rows % 2 == 0);
}

TEST(SuffixCache, ADonatedWeightTakesTheUpdate) {
  jit::SuffixCache cache;
  TestHost host;
  for (int64_t rows : {5, 9, 12}) {
    const ir::Graph graph = training_step(rows);
    auto e = cache.compile(graph, {});
    const auto in = inputs_of(host, rows);
    const Ran r = run(*e, host, graph, in, {}, true);
    if (rows > 5) {  // the first was planned whole
      EXPECT_EQ(r.outputs[3].data, in[3].data);
    }
  }
}

TEST(SuffixCache, OtherOptionsShareNothing) {
  jit::SuffixCache cache;
  for (int64_t rows : {5, 9, 12}) expect_same(cache, rows);
  jit::CompileOptions options;
  options.fusion = false;
  EXPECT_EQ(cache.compile(training_step(13), options)->stats().reused_nodes, 0);
  EXPECT_EQ(expect_same(cache, 14), 0) << "nor do those of before any more";
}

TEST(SuffixCache, SmallGraphsAreNotCut) {
  jit::SuffixCache cache;
  for (int64_t rows : {4, 5, 6, 7}) {
    Model m;
    auto x = m.input({rows, kWidth});
    m.graph.outputs = {m.mul(m.apply(Op::sum, {x}, ir::Attrs{{0}, {0}}), 2.0)};
    EXPECT_EQ(cache.compile(m.graph, {})->stats().reused_nodes, 0);
  }
}

}  // namespace
}  // namespace lazuli::testing
