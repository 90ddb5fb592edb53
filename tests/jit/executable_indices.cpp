// Loads at run-time indices: what they read, and what happens when an index is out of range.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

struct Lookup : ::testing::Test {
  Model m;
  TestHost host;
  std::vector<jit::Buffer> inputs;

  void SetUp() override {
    auto table = m.input({5, 3}), scale = m.input({3});
    auto index = m.input(ir::DType::I64, {2, 2});
    m.at_line("model.py:9");
    m.graph.outputs = {m.mul(m.apply(Op::index_select, {table, index}, ir::Attrs{{0}}), scale)};
    inputs = {buffer_of(host, random_floats(15)), buffer_of(host, Floats{1, 2, 3})};
  }
};

TEST_F(Lookup, EmbeddingFusesWithWhatFollows) {
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1) << e->plan_text();
  inputs.push_back(buffer_of(host, std::vector<int64_t>{4, 0, 2, 2}));
  const Floats t = random_floats(15);
  Floats want;
  for (int r : {4, 0, 2, 2})
    for (int c = 0; c < 3; ++c) want.push_back(t[r * 3 + c] * static_cast<float>(c + 1));
  expect_close(run(*e, host, m.graph, inputs).floats[0], want);
}

TEST_F(Lookup, AnIndexOutOfRangeIsAnErrorWithItsLine) {
  auto e = jit::compile(m.graph, {});
  for (int64_t bad : {int64_t{5}, int64_t{-1}}) {
    auto in = inputs;
    in.push_back(buffer_of(host, std::vector<int64_t>{0, 1, bad, 2}));
    try {
      run(*e, host, m.graph, in);
      FAIL() << "expected an error";
    } catch (const jit::ExecutionError& error) {
      EXPECT_NE(std::string(error.what()).find("(model.py:9): index out of range in self"), std::string::npos)
          << error.what();
    }
  }
}

void expect_failure(const ir::Graph& graph, const std::vector<jit::Buffer>& inputs, TestHost& host,
                    const std::string& message) {
  for (bool interpret : {false, true}) {
    auto e = jit::compile(graph, {.interpret_kernels = interpret});
    try {
      run(*e, host, graph, inputs);
      ADD_FAILURE() << "expected an error: " << message;
    } catch (const jit::ExecutionError& error) {
      EXPECT_EQ(std::string(error.what()), message);
    }
  }
}

TEST(ComputedIndices, AreCheckedToo) {
  TestHost host;
  Model m;
  auto table = m.input({5});
  auto moved = m.add(m.input(ir::DType::I64, {4}), 2);
  m.at_line("model.py:12");
  m.graph.outputs = {m.apply(Op::gather, {table, moved}, ir::Attrs{{0}})};
  const jit::Buffer numbers = buffer_of(host, Floats{0, 1, 2, 3, 4});
  const auto index = [&](std::vector<int64_t> i) { return buffer_of(host, i); };
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1) << e->plan_text();
  expect_close(run(*e, host, m.graph, {numbers, index({2, 0, -1, -2})}).floats[0], Floats{4, 2, 1, 0});
  for (int64_t bad : {3, -3, 1 << 30})
    expect_failure(m.graph, {numbers, index({2, 0, bad, 1})}, host, "gather (model.py:12): index out of range in self");
}

TEST(IntegerDivision, ByZeroIsAnErrorOfTheLineThatDivides) {
  TestHost host;
  for (const char* name : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
    Op op;
    ASSERT_TRUE(ir::parse_op(name, op));
    for (bool sums : {false, true}) {
      Model m;
      auto x = m.input(ir::DType::I32, {100}), y = m.input(ir::DType::I32, {100});
      m.at_line("model.py:3");
      auto q = m.apply(op, {x, y});
      m.at_line("model.py:4");
      q = m.apply(Op::abs, {q});
      m.graph.outputs = {sums ? m.sum(q, ir::Dims{0}, false) : q};
      std::vector<int32_t> divisors(100, -3);
      std::vector<jit::Buffer> in{buffer_of(host, std::vector<int32_t>(100, 7)), buffer_of(host, divisors)};
      auto e = jit::compile(m.graph, {});
      run(*e, host, m.graph, in);
      divisors[97] = 0;
      in[1] = buffer_of(host, divisors);
      expect_failure(m.graph, in, host, std::string(name) + " (model.py:3): ZeroDivisionError");
    }
  }
}

}  // namespace
}  // namespace lazuli::testing
