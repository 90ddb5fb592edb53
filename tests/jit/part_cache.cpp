// Listings that share parts share their executables, and compute what they would alone.
#include "jit/parts/part_cache.h"
#include "lowering/threads/crew.h"
#include "tests/ir/recorded.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using ir::testing::no_lines;
using ir::testing::Recorded;

constexpr int64_t kWidth = 6;

// `steps` times the same cell on a state; then updates of weights that do not depend on how many. Views of weights are
// read by every cell, and the rows of x one after the other.
ir::Graph recurrent_step(int64_t steps, bool keep_states = false) {
  Model m;
  auto x = m.input({16, kWidth}), state = m.input({1, kWidth}), weight = m.input({kWidth, kWidth}),
       bias = m.input({kWidth});
  auto transposed = m.permute(weight, ir::Dims{1, 0});
  for (int64_t t = 0; t < steps; ++t) {
    auto row = m.apply(Op::slice, {x}, {{t, 0}, {1, kWidth}, {1, 1}});
    auto product = m.apply(Op::matmul, {state, transposed});
    state = m.apply(Op::tanh, {m.apply(Op::add, {m.apply(Op::add, {product, bias}), row})});
    if (keep_states) m.graph.outputs.push_back(state);
  }
  auto gradient = m.apply(Op::matmul, {m.permute(state, ir::Dims{1, 0}), state});
  m.graph.outputs.push_back(m.apply(Op::sub, {weight, m.mul(gradient, 0.5)}));
  m.graph.donated = {false, true, true, false};
  return m.graph;
}

// Runs it in parts and alone; gives how many parts were new.
int64_t expect_same(jit::PartCache& cache, const ir::Graph& graph, bool donate = false) {
  TestHost host;
  const Recorded recorded(graph);
  auto alone = jit::compile(graph, {}),
       shared = cache.compile(recorded.listing(), recorded.live(), graph.donated, {}, no_lines);
  {
    const auto in = inputs_of(host, graph);
    const Ran want = run(*alone, host, graph, in);
    const Ran got = run(*shared, host, graph, donate ? inputs_of(host, graph) : in, {}, donate);
    for (size_t i = 0; i < want.floats.size(); ++i) expect_close(got.floats[i], want.floats[i], 1e-6f);
    EXPECT_EQ(run(*shared, host, graph, in).floats, got.floats) << "inputs that were not donated are as they were";
  }
  EXPECT_EQ(host.live, 0);
  return shared->stats().new_parts;
}

TEST(PartCache, LongerSequencesAreMadeOfKnownParts) {
  jit::PartCache cache;
  EXPECT_EQ(expect_same(cache, recurrent_step(3)), 2) << "the cell and the update";
  EXPECT_EQ(expect_same(cache, recurrent_step(7)), 0);
  EXPECT_EQ(expect_same(cache, recurrent_step(5)), 0);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(PartCache, TurnsOfALoopShareTheirParameters) {
  jit::PartCache cache;
  const auto turns = [&](const ir::Graph& graph) {
    const Recorded recorded(graph);
    return cache.compile(recorded.listing(), recorded.live(), graph.donated, {}, no_lines)->stats().turns;
  };
  EXPECT_EQ(turns(recurrent_step(7)), 6);
  Model m;
  auto x = m.input({2, kWidth});
  for (int layer = 0; layer < 7; ++layer) x = m.apply(Op::tanh, {m.apply(Op::matmul, {x, m.input({kWidth, kWidth})})});
  m.graph.outputs = {x};
  EXPECT_EQ(turns(m.graph), 0) << "layers have their own";
}

// Stands for what runs a part without a plan, and counts as such.
std::unique_ptr<jit::Executable> without_plan(ir::Graph graph, const jit::CompileOptions& options) {
  struct Counted final : jit::Executable {
    std::unique_ptr<jit::Executable> inner;
    jit::CompileStats own;
    void run(jit::Host& host, std::span<jit::Buffer> inputs, std::span<const bool> donate,
             std::span<const int64_t> scalars, std::span<jit::Buffer> outputs) override {
      inner->run(host, inputs, donate, scalars, outputs);
    }
    jit::Failures failures_of(const jit::Failures& inputs) const override { return inner->failures_of(inputs); }
    const jit::CompileStats& stats() const override { return own; }
    std::string plan_text() const override { return inner->plan_text(); }
  };
  auto counted = std::make_unique<Counted>();
  counted->inner = jit::compile(std::move(graph), options);
  return counted;
}

TEST(PartCache, NewPartsNeedNoPlan) {
  jit::PartCache cache;
  jit::CompileOptions options;
  options.unplanned = without_plan;
  const auto stats = [&](int64_t steps, auto... more) {
    const ir::Graph graph = recurrent_step(steps, more...);
    const Recorded recorded(graph);
    return cache.compile(recorded.listing(), recorded.live(), graph.donated, options, no_lines)->stats();
  };
  jit::CompileStats s = stats(5);
  EXPECT_EQ(s.unplanned_parts, 6) << "all turns, and the update";
  EXPECT_EQ(s.new_parts, 0);
  s = stats(7);
  EXPECT_EQ(s.unplanned_parts, 8) << "they have come in one listing before";
  EXPECT_EQ(s.new_parts, 0);
  options.planned_soon = true;
  EXPECT_EQ(stats(4).unplanned_parts, 5) << "no part needs a plan where the whole will have one";
  options.planned_soon = false;
  s = stats(4);
  EXPECT_EQ(s.unplanned_parts, 0);
  EXPECT_EQ(s.new_parts, 2) << "they have come in two listings before";
  EXPECT_EQ(stats(3).new_parts, 0);
  options.planned_soon = true;
  EXPECT_EQ(stats(3).unplanned_parts, 0) << "what has a plan is run by it";
  options.planned_soon = false;
  EXPECT_GT(stats(3, /*keep_states=*/true).unplanned_parts, 0) << "other outputs are other code";
  options.unplanned_always = true;
  s = stats(3);
  EXPECT_EQ(s.unplanned_parts, 4);
  s = stats(3);
  EXPECT_EQ(s.unplanned_parts, 4);
}

TEST(PartCache, WhatGathersNeverNeedsAPlan) {
  jit::PartCache cache;
  jit::CompileOptions options;
  options.unplanned = without_plan;
  const auto stats = [&](int64_t count) {
    Model m;
    std::vector<ir::Value> rows;
    for (int64_t i = 0; i < count; ++i) rows.push_back(m.input({1, kWidth}));
    m.graph.outputs = {m.apply(Op::exp, {m.emit(Op::cat, rows, {{0}})})};
    const Recorded recorded(m.graph);
    return cache.compile(recorded.listing(), recorded.live(), {}, options, no_lines)->stats();
  };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(stats(8).unplanned_parts, 1) << "what reads it is new";
  EXPECT_EQ(stats(8).new_parts, 1) << "what reads it is planned";
  const jit::CompileStats s = stats(9);
  EXPECT_EQ(s.resized_parts + s.new_parts, 1);
  for (int64_t count : {5, 8, 11}) {
    const jit::CompileStats s = stats(count);
    EXPECT_EQ(s.parts, 2);
    EXPECT_EQ(s.new_parts + s.unplanned_parts, 0) << count;
  }
}

TEST(PartCache, AListingThatIsMostlyNew) {
  jit::PartCache cache;
  jit::CompileOptions options;
  options.unplanned = without_plan;
  const ir::Graph graph = recurrent_step(5);
  const Recorded recorded(graph);
  const auto made = [&] {
    return cache.compile_if_new(recorded.listing(), recorded.live(), graph.donated, options, no_lines);
  };
  for (int i = 0; i < 2; ++i) EXPECT_NE(made(), nullptr);
  EXPECT_EQ(made(), nullptr) << "its parts are known";
}

TEST(PartCache, DonatedInputs) {
  jit::PartCache cache;
  for (int64_t steps : {3, 6, 2}) expect_same(cache, recurrent_step(steps), true);
}

TEST(PartCache, WhatIsKeptIsNotOverwritten) {
  jit::PartCache cache;
  expect_same(cache, recurrent_step(4), true);
  EXPECT_GT(expect_same(cache, recurrent_step(4, /*keep_states=*/true), true), 0);
}

// The last part reads a piece of a value, and then all of it.
TEST(PartCache, APieceAndTheWhole) {
  Model m;
  auto x = m.input({4, kWidth});
  auto a = m.apply(Op::exp, {x});
  auto piece = m.apply(Op::slice, {a}, {{1, 0}, {1, kWidth}, {1, 1}});
  auto b = m.apply(Op::neg, {piece});
  m.graph.outputs = {m.apply(Op::mul, {b, a})};
  m.graph.donated = {true};
  const Recorded recorded(m.graph, {3});
  TestHost host;
  jit::PartCache cache;
  auto alone = jit::compile(m.graph, {}),
       shared = cache.compile(recorded.listing(), recorded.live(), {true}, {}, no_lines);
  ASSERT_EQ(shared->stats().parts, 2);
  const auto in = inputs_of(host, m.graph);
  EXPECT_EQ(run(*shared, host, m.graph, in).floats, run(*alone, host, m.graph, in).floats);
  EXPECT_EQ(run(*shared, host, m.graph, inputs_of(host, m.graph), {}, true).floats,
            run(*alone, host, m.graph, in).floats);
}

TEST(PartCache, RuntimeNumbersOfEachPartAreItsOwn) {
  Model m;
  auto x = m.input({4});
  auto a = m.scalar(ir::DType::F32), b = m.scalar(ir::DType::F32);
  auto first = m.apply(Op::mul, {x, a});
  auto second = m.apply(Op::add, {m.apply(Op::mul, {first, b}), a});
  m.graph.outputs = {second};
  const Recorded recorded(m.graph, {4});
  TestHost host;
  jit::PartCache cache;
  auto e = cache.compile(recorded.listing(), recorded.live(), {}, {}, no_lines);
  EXPECT_EQ(e->stats().parts, 2);
  const auto bits = [](double d) { return std::bit_cast<int64_t>(d); };
  const Ran got = run(*e, host, m.graph, {buffer_of(host, Floats{1, 2, 3, 4})}, {bits(10), bits(100)});
  expect_close(got.floats[0], {1010, 2010, 3010, 4010});
}

TEST(PartCache, OtherOptionsOtherCode) {
  jit::PartCache cache;
  const ir::Graph graph = recurrent_step(3);
  const Recorded recorded(graph);
  jit::CompileOptions options;
  cache.compile(recorded.listing(), recorded.live(), graph.donated, options, no_lines);
  options.fusion = false;
  EXPECT_EQ(cache.compile(recorded.listing(), recorded.live(), graph.donated, options, no_lines)->stats().new_parts, 2);
}

// Layers that all do something else.
ir::Graph many_kinds(int64_t rows) {
  Model m;
  auto x = m.input({rows, kWidth});
  for (Op op : {Op::tanh, Op::exp, Op::neg, Op::sin, Op::cos, Op::sigmoid, Op::abs, Op::erf})
    x = m.apply(op, {m.apply(Op::matmul, {x, m.input({kWidth, kWidth})})});
  m.graph.outputs = {x};
  return m.graph;
}

TEST(PartCache, NewPartsAreMadeByAllThreads) {
  std::vector<Floats> results;
  for (int threads : {1, 4}) {
    const lowering::Threads some(threads);
    jit::PartCache cache;
    const std::vector<std::pair<int64_t, int64_t>> new_parts{{3, 8}, {3, 0}, {5, 8}, {6, 0}};  // by rows
    for (const auto& [rows, parts] : new_parts) EXPECT_EQ(expect_same(cache, many_kinds(rows)), parts) << rows;
    TestHost host;
    const ir::Graph graph = many_kinds(3);
    const Recorded recorded(graph);
    const auto executable = cache.compile(recorded.listing(), recorded.live(), {}, {}, no_lines);
    results.push_back(run(*executable, host, graph, inputs_of(host, graph)).floats[0]);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Layers of the same ops for other batches.
TEST(PartCache, PartsOfOneCodeShareAPlanForOtherSizes) {
  Model m;
  for (int64_t rows : {9, 17, 13, 11, 13}) {
    auto x = m.input({rows, kWidth}), weight = m.input({kWidth, kWidth});
    m.graph.outputs.push_back(m.apply(Op::tanh, {m.apply(Op::matmul, {x, weight})}));
  }
  for (const int threads : {1, 2}) {
    const lowering::Threads several(threads);
    jit::PartCache cache;
    EXPECT_EQ(expect_same(cache, m.graph), 2) << "one for the first's sizes, one for all";
    EXPECT_EQ(cache.generic_plans(), 1u);
    EXPECT_EQ(expect_same(cache, m.graph), 0);
  }
}

// What fails in one part fails what depends on it in others, and nothing else.
TEST(PartCache, FailuresGoOn) {
  Model m;
  auto x = m.input({4}), index = m.input(ir::DType::I64, {2});
  auto found = m.emit(Op::gather, {x, index}, {{0}});
  auto other = m.apply(Op::exp, {x});
  auto later = m.apply(Op::neg, {found});
  m.graph.outputs = {found, other, later};
  const Recorded recorded(m.graph, {2, 3, 4});
  TestHost host;
  jit::PartCache cache;
  auto e = cache.compile(recorded.listing(), recorded.live(), {}, {}, no_lines);
  ASSERT_EQ(e->stats().parts, 3);
  const auto in = std::vector{buffer_of(host, Floats{1, 2, 3, 4}), buffer_of(host, std::vector<int64_t>{1, 9})};
  try {
    run(*e, host, m.graph, in);
    FAIL() << "an index is out of range";
  } catch (const jit::PartialFailure& failure) {
    ASSERT_EQ(failure.outputs.size(), 3u);
    EXPECT_TRUE(failure.outputs[0]);
    EXPECT_FALSE(failure.outputs[1]);
    EXPECT_TRUE(failure.outputs[2]);
  }
}

}  // namespace
}  // namespace lazuli::testing
