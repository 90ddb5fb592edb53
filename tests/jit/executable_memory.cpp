// Where values live: temporaries share the arena, outputs take over what dies, inputs survive unless donated.
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

// A chain that fusion cannot shorten: matrix products in a row.
ir::Graph chain(int length, int64_t n) {
  Model m;
  auto x = m.input({n, n}), w = m.input({n, n});
  for (int i = 0; i < length; ++i) x = m.apply(Op::matmul, {x, w});
  m.graph.outputs = {x};
  return m.graph;
}

TEST(ExecutableMemory, AChainNeedsTwoTemporaries) {
  const int64_t bytes = 64 * 64 * 4;
  int64_t scratch = 0;
  const lowering::Plan plan = lowering::make_plan(chain(20, 64), {});
  for (const auto& s : plan.steps) scratch = std::max<int64_t>(scratch, s.call->scratch_bytes());
  EXPECT_LE(plan.arena_bytes, 2 * bytes + scratch + 64);
}

TEST(ExecutableMemory, BlocksAliveTogetherDoNotOverlap) {
  const lowering::Plan plan = lowering::make_plan(chain(12, 48), {});
  for (const auto& a : plan.blocks)
    for (const auto& b : plan.blocks) {
      if (&a == &b || a.kind != lowering::Block::Arena || b.kind != lowering::Block::Arena) continue;
      if (a.host != b.host || a.last < b.first || b.last < a.first) continue;
      EXPECT_TRUE(a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset);
    }
}

TEST(ExecutableMemory, ADonatedInputBecomesTheOutput) {
  Model m;
  auto x = m.input({300}), y = m.input({300});
  m.graph.outputs = {m.add(x, y)};
  m.graph.donated = {true, false};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(300, 1), b = random_floats(300, 2);
  Floats want;
  for (int i = 0; i < 300; ++i) want.push_back(a[i] + b[i]);
  const auto in = buffer_of(host, a);
  auto r = run(*e, host, m.graph, {in, buffer_of(host, b)}, {}, true);
  EXPECT_EQ(r.outputs[0].data, in.data);
  expect_close(r.floats[0], want);
}

// As an optimizer's step: each of them could take any dying operand's place.
TEST(ExecutableMemory, TheNextValueOfAnInputLiesWhereThatLay) {
  Model m;
  auto g = m.input({300}), v = m.input({300}), a = m.input({300}), p = m.input({300});
  auto next_a = m.add(m.mul(a, 0.9), m.mul(g, 0.1)), next_v = m.add(m.mul(v, 0.99), m.mul(m.mul(g, g), 0.01));
  auto next_p = m.apply(Op::sub, {p, m.apply(Op::div, {next_a, m.apply(Op::sqrt, {next_v})})});
  m.graph.outputs = {next_p, next_a, next_v};
  m.graph.donated = {true, true, true, true};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  std::vector<jit::Buffer> in;
  for (uint32_t i = 0; i < 4; ++i) in.push_back(buffer_of(host, random_floats(300, i, 0.1f, 1)));
  const auto r = run(*e, host, m.graph, in, {}, true);
  EXPECT_EQ(r.outputs[0].data, in[3].data);
  EXPECT_EQ(r.outputs[1].data, in[2].data);
  EXPECT_EQ(r.outputs[2].data, in[1].data);
}

// As y[:2] = y[2:4]: what stays where it is costs nothing, and the rest is moved.
TEST(ExecutableMemory, APartOfADonatedInputMovesInsideOfIt) {
  Model m;
  auto x = m.input({8, 40});
  const auto rows = [&](int64_t first, int64_t count) {
    return m.apply(Op::slice, {x}, {{first, 0}, {count, 40}, {1, 1}});
  };
  m.graph.outputs = {m.apply(Op::cat, {rows(2, 2), rows(2, 6)}, {{0}})};
  m.graph.donated = {true};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(8 * 40, 1);
  Floats want(a.begin() + 2 * 40, a.begin() + 4 * 40);
  want.insert(want.end(), a.begin() + 2 * 40, a.end());
  expect_close(run(*e, host, m.graph, {buffer_of(host, a)}, {}, true).floats[0], want);
}

TEST(ExecutableMemory, AnInputThatTheCallerKeepsIsUntouched) {
  Model m;
  auto x = m.input({300}), y = m.input({300});
  m.graph.outputs = {m.add(x, y)};
  m.graph.donated = {true, false};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(300, 1), b = random_floats(300, 2);
  const auto in = buffer_of(host, a);
  auto r = run(*e, host, m.graph, {in, buffer_of(host, b)}, {}, false);
  EXPECT_NE(r.outputs[0].data, in.data);
  expect_close(values_of(in), a, 0);
}

TEST(ExecutableMemory, ATransposedReaderKeepsADonatedInputFromBeingOverwritten) {
  Model m;
  auto x = m.input({20, 20});
  m.graph.outputs = {m.add(x, m.transpose(x))};
  m.graph.donated = {true};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(400, 1);
  Floats want;
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 20; ++j) want.push_back(a[i * 20 + j] + a[j * 20 + i]);
  expect_close(run(*e, host, m.graph, {buffer_of(host, a)}, {}, true).floats[0], want);
}

TEST(ExecutableMemory, SoftmaxOverwritesItsDonatedInput) {
  Model m;
  auto x = m.input({8, 50});
  m.graph.outputs = {m.apply(Op::softmax, {x}, ir::Attrs{{1}})};
  m.graph.donated = {true};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const Floats a = random_floats(400, 1);
  const auto in = buffer_of(host, a);
  auto kept = run(*e, host, m.graph, {in}, {}, false);
  auto taken = run(*e, host, m.graph, {in}, {}, true);
  EXPECT_EQ(taken.outputs[0].data, in.data);
  expect_close(taken.floats[0], kept.floats[0], 0);
}

TEST(ExecutableMemory, AWindowIsUpdatedInItsDonatedBase) {
  Model m;
  auto base = m.input({10, 10});
  auto window = m.apply(Op::slice, {base}, ir::Attrs{{2, 0}, {3, 10}, {1, 1}});
  auto changed = m.add(window, 1.0);
  m.graph.outputs = {m.apply(Op::as_strided_scatter, {base, changed}, ir::Attrs{{10, 1}, {20}})};
  m.graph.donated = {true};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->plan_text().find("step 1"), std::string::npos) << e->plan_text();
  const Floats a = random_floats(100, 1);
  Floats want = a;
  for (int i = 20; i < 50; ++i) want[i] += 1;
  const auto in = buffer_of(host, a);
  auto r = run(*e, host, m.graph, {in}, {}, true);
  EXPECT_EQ(r.outputs[0].data, in.data);
  expect_close(r.floats[0], want);
}

TEST(ExecutableMemory, ARunAllocatesOnlyItsOutputs) {
  const ir::Graph g = chain(6, 32);
  TestHost host;
  jit::CompileOptions options;
  options.pack = false;  // packed operands have memory that the host may keep
  auto e = jit::compile(g, options);
  const auto a = buffer_of(host, random_floats(1024, 1)), b = buffer_of(host, random_floats(1024, 2));
  host.allocations = 0;
  run(*e, host, g, {a, b});
  EXPECT_EQ(host.allocations, 1);
}

TEST(ExecutableMemory, AnInputCanBeAnOutput) {
  Model m;
  auto x = m.input({5});
  m.graph.outputs = {x, m.neg(x), x};
  TestHost host;
  auto e = jit::compile(m.graph, {});
  const auto in = buffer_of(host, Floats{1, 2, 3, 4, 5});
  auto r = run(*e, host, m.graph, {in});
  EXPECT_EQ(r.outputs[0].data, in.data);
  expect_close(r.floats[1], {-1, -2, -3, -4, -5});
}

}  // namespace
}  // namespace lazuli::testing
