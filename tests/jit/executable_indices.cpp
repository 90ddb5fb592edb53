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

// An address has room for one run-time index.
TEST(LookupInLookup, RowsAndThenColumns) {
  Model m;
  TestHost host;
  auto table = m.input({4, 3}), rows = m.input(ir::DType::I64, {5}), columns = m.input(ir::DType::I64, {2});
  auto picked = m.apply(Op::index_select, {table, rows}, ir::Attrs{{0}});
  m.graph.outputs = {m.mul(m.apply(Op::index_select, {picked, columns}, ir::Attrs{{1}}), 2.0)};
  const Floats t = random_floats(12);
  const std::vector<int64_t> r{3, 0, 2, 2, 1}, c{2, 0};
  Floats want;
  for (int64_t row : r)
    for (int64_t column : c) want.push_back(2 * t[row * 3 + column]);
  auto e = jit::compile(m.graph, {});
  expect_close(run(*e, host, m.graph, {buffer_of(host, t), buffer_of(host, r), buffer_of(host, c)}).floats[0], want);
}

TEST(LookupInLookup, RowsOfWhatWasGathered) {
  Model m;
  TestHost host;
  auto table = m.input({6, 7}), columns = m.input(ir::DType::I64, {3, 2}), rows = m.input(ir::DType::I64, {2});
  auto gathered = m.apply(Op::gather, {table, columns}, ir::Attrs{{1}});
  m.graph.outputs = {m.mul(m.apply(Op::index_select, {gathered, rows}, ir::Attrs{{0}}), 2.0)};
  const Floats t = random_floats(42);
  const std::vector<int64_t> c{1, 3, 2, 0, 1, 5}, r{2, 0};
  Floats want;
  for (int64_t row : r)
    for (int i = 0; i < 2; ++i) want.push_back(2 * t[row * 7 + c[row * 2 + i]]);
  auto e = jit::compile(m.graph, {});
  expect_close(run(*e, host, m.graph, {buffer_of(host, t), buffer_of(host, c), buffer_of(host, r)}).floats[0], want);
}

TEST(LookupInLookup, OverAnOperandThatIsGivenAway) {
  Model m;
  TestHost host;
  auto table = m.input({64}), index = m.input(ir::DType::I64, {64});
  m.graph.outputs = {m.mul(m.apply(Op::index_select, {table, index}, ir::Attrs{{0}}), 2.0)};
  m.graph.donated = {true, true};
  const Floats t = random_floats(64);
  std::vector<int64_t> backwards;
  Floats want;
  for (int64_t i = 64; i-- > 0;) backwards.push_back(i), want.push_back(2 * t[i]);
  auto e = jit::compile(m.graph, {});
  const auto inputs = {buffer_of(host, t), buffer_of(host, backwards)};
  expect_close(run(*e, host, m.graph, inputs, {}, /*donate=*/true).floats[0], want);
}

// A table of 12 numbers, read at wrap(a) * 3 + wrap(b) for each of three entries.
struct Positions : ::testing::Test {
  Model m;
  TestHost host;

  ir::Value position(ir::Value i, double size) {
    return m.apply(Op::index_position, {i, m.constant(size, m.dtype(i))});
  }
  void read(ir::Value a, ir::Value b) {
    ir::Value flat = m.add(m.mul(position(a, 4), 3.0), position(b, 3));
    m.graph.outputs = {m.mul(m.apply(Op::index_select, {table, flat}, ir::Attrs{{0}}), 2.0)};
  }
  std::string error_of(jit::Executable& e, const std::vector<jit::Buffer>& inputs) {
    try {
      run(e, host, m.graph, inputs);
    } catch (const jit::ExecutionError& error) {
      return error.what();
    }
    return "";
  }
  ir::Value table = m.input({12});
  Floats numbers{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
};

TEST_F(Positions, CountFromTheEndInOneKernel) {
  auto a = m.input(ir::DType::I64, {3}), b = m.input(ir::DType::I64, {3});
  read(a, b);
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(e->stats().kernels, 1) << e->plan_text();
  const auto got = run(*e, host, m.graph,
                       {buffer_of(host, numbers), buffer_of(host, std::vector<int64_t>{0, -1, -4}),
                        buffer_of(host, std::vector<int64_t>{-3, 2, -1})});
  expect_close(got.floats[0], {0, 22, 4});
}

TEST_F(Positions, OutsideAreErrorsOfTheirRow) {
  auto a = m.input(ir::DType::I64, {3}), b = m.input(ir::DType::I32, {3});
  m.at_line("model.py:3");
  ir::Value second = m.convert(position(b, 3), ir::DType::I64);
  m.at_line("model.py:4");
  ir::Value flat = m.add(m.mul(position(a, 4), 3.0), second);
  m.graph.outputs = {m.apply(Op::index_select, {table, flat}, ir::Attrs{{0}})};
  auto e = jit::compile(m.graph, {});
  auto inputs = [&](int64_t x, int32_t y) {
    return std::vector{buffer_of(host, numbers), buffer_of(host, std::vector<int64_t>{0, x, 3}),
                       buffer_of(host, std::vector<int32_t>{0, y, 2})};
  };
  EXPECT_EQ(error_of(*e, inputs(-4, -3)), "");
  const std::string text = "is out of bounds for dimension with size";
  EXPECT_EQ(error_of(*e, inputs(4, 0)), "index_position (model.py:4): index " + text + " 4");
  EXPECT_EQ(error_of(*e, inputs(-5, 0)), "index_position (model.py:4): index " + text + " 4");
  EXPECT_EQ(error_of(*e, inputs(0, 3)), "index_position (model.py:3): index " + text + " 3");
  EXPECT_EQ(error_of(*e, inputs(0, -4)), "index_position (model.py:3): index " + text + " 3");
}

TEST_F(Positions, AreTestedWhenAKernelMakesThem) {
  auto a = m.input(ir::DType::I64, {3});
  ir::Value range = m.emit(Op::iota, std::span<const ir::Value>(), ir::Attrs{{3}});
  read(m.add(a, 1.0), m.add(range, m.scalar(ir::DType::I64)));
  auto e = jit::compile(m.graph, {});
  const std::vector inputs{buffer_of(host, numbers), buffer_of(host, std::vector<int64_t>{0, 1, 2})};
  EXPECT_EQ(run(*e, host, m.graph, inputs, {0}).floats[0], (Floats{6, 14, 22}));
  EXPECT_THROW(run(*e, host, m.graph, inputs, {1}), jit::ExecutionError);
  auto beyond = inputs;
  beyond[1] = buffer_of(host, std::vector<int64_t>{0, 1, 3});
  EXPECT_THROW(run(*e, host, m.graph, beyond, {0}), jit::ExecutionError);
}

TEST_F(Positions, OfNumbersAreTested) {
  ir::Value number = m.broadcast(m.scalar(ir::DType::I64), ir::Dims{3});
  read(number, number);
  auto e = jit::compile(m.graph, {});
  EXPECT_EQ(run(*e, host, m.graph, {buffer_of(host, numbers)}, {2}).floats[0], Floats(3, 16));
  EXPECT_THROW(run(*e, host, m.graph, {buffer_of(host, numbers)}, {3}), jit::ExecutionError);
}

void expect_failure(const ir::Graph& graph, const std::vector<jit::Buffer>& inputs, TestHost& host,
                    const std::string& message) {
  for (bool interpret : {false, true}) {
    jit::CompileOptions options;
    options.interpret_kernels = interpret;
    auto e = jit::compile(graph, options);
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
