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

}  // namespace
}  // namespace lazuli::testing
