// Operands of which only the packed form is left: when the other one is given away, and that whoever reads it finds it.
#include "jit/run/packed_operands.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using jit::PackedOperands;

constexpr int64_t kOperandRows = 40, kOperandSize = 192;

// What is given away is gone.
struct ForgettingHost : TestHost {
  PackedOperands store;
  int away = 0;
  ForgettingHost() { store.set_limit(1 << 24); }
  PackedOperands* packed_operands() override { return &store; }
  std::shared_ptr<void> let_go(const jit::Buffer& buffer) override {
    std::memset(buffer.data, 0xFF, buffer.bytes);
    return {&++away, [](int* n) { --*n; }};
  }
};

struct ReplacedOperands : ::testing::Test {
  ForgettingHost host;
  const Floats x = random_floats(kOperandRows * kOperandSize, 1), w = random_floats(kOperandSize * kOperandSize, 2);
  jit::Buffer xb = buffer_of(host, x), wb = buffer_of(host, w);
  Model product;
  std::unique_ptr<jit::Executable> e;

  ReplacedOperands() {
    e = compiled(product, [](Model&, ir::Value, ir::Value) {});
  }
  // x times w, and whatever `more` adds to the outputs.
  template <class More>
  static std::unique_ptr<jit::Executable> compiled(Model& m, More more) {
    const ir::Value a = m.input({kOperandRows, kOperandSize}), b = m.input({kOperandSize, kOperandSize});
    m.graph.outputs = {m.apply(ir::Op::matmul, {a, b})};
    more(m, a, b);
    return jit::compile(m.graph, {});
  }
  void SetUp() override {
    if (e->plan_text().find("packed") == std::string::npos) GTEST_SKIP() << "this machine's library packs nothing";
  }
  // Beside the run only this fixture has the buffers, as a value has its own.
  Floats result(const Model& m, jit::Executable& program) {
    std::vector<jit::Buffer> in{xb, wb}, out(m.graph.outputs.size());
    const bool donate[] = {false, false};
    program.run(host, in, donate, {}, out);
    return values_of(out[0]);
  }
  Floats give_away() {
    const Floats first = result(product, *e);
    EXPECT_EQ(host.away, 0) << "it may change before the next run";
    EXPECT_EQ(result(product, *e), first);
    EXPECT_EQ(host.away, 1);
    EXPECT_EQ(host.store.bytes(), 0u) << "beside the operands";
    return first;
  }
  void expect_there() {
    EXPECT_EQ(host.away, 0);
    EXPECT_EQ(std::memcmp(wb.data, w.data(), wb.bytes), 0);
  }
};

TEST_F(ReplacedOperands, AreReadAsTheyArePacked) {
  const Floats first = give_away();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(result(product, *e), first);
  EXPECT_EQ(host.away, 1);
  host.store.bring_back(wb);
  expect_there();
}

TEST_F(ReplacedOperands, ComeBackBitByBit) {
  uint32_t bits = 0x7F800001;  // a signaling nan, and whatever follows
  for (int64_t i = 0; i < kOperandSize * kOperandSize; ++i, bits = bits * 1664525 + 1013904223)
    std::memcpy(static_cast<char*>(wb.data) + 4 * i, &bits, 4);
  const Floats all = values_of(wb);
  result(product, *e), result(product, *e);
  ASSERT_EQ(host.away, 1);
  host.store.bring_back(wb);
  EXPECT_EQ(std::memcmp(wb.data, all.data(), wb.bytes), 0);
}

TEST_F(ReplacedOperands, ComeBackForAPlanThatReadsThemOtherwise) {
  const Floats first = give_away();
  Model other;
  const auto sums = compiled(other, [](Model& m, ir::Value, ir::Value b) { m.graph.outputs.push_back(m.mul(b, b)); });
  EXPECT_EQ(result(other, *sums), first);
  expect_there();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(result(product, *e), first);
  expect_there();  // it is read, so it stays
}

TEST_F(ReplacedOperands, StayWhereThePlanReadsThemOtherwise) {
  Model m;
  const auto both = compiled(m, [](Model& g, ir::Value, ir::Value b) { g.graph.outputs.push_back(g.mul(b, b)); });
  for (int i = 0; i < 3; ++i) result(m, *both);
  expect_there();
}

TEST_F(ReplacedOperands, StayWhereTheyAreResults) {
  Model m;
  const auto both = compiled(m, [](Model& g, ir::Value, ir::Value b) { g.graph.outputs.push_back(b); });
  for (int i = 0; i < 3; ++i) result(m, *both);
  expect_there();
}

TEST_F(ReplacedOperands, StayWhileSomebodyElseHasTheirBuffer) {
  const jit::Buffer reader = wb;
  for (int i = 0; i < 3; ++i) result(product, *e);
  expect_there();
}

TEST_F(ReplacedOperands, ComeBackBeforeTheyAreWrittenOver) {
  const Floats first = give_away();
  Model m;
  const ir::Value b = m.input({kOperandSize, kOperandSize});
  m.graph.outputs = {m.mul(b, b)};
  m.graph.donated = {true};
  const auto update = jit::compile(m.graph, {});
  const Floats squares = run(*update, host, m.graph, {wb}, {}, true).floats[0];
  for (size_t i = 0; i < w.size(); ++i) ASSERT_EQ(squares[i], w[i] * w[i]);
  EXPECT_EQ(values_of(wb), squares) << "the update was to be in place";
  EXPECT_NE(result(product, *e), first);
}

TEST_F(ReplacedOperands, OutliveWhoeverClearsWhatIsKept) {
  const Floats first = give_away();
  host.store.clear();
  EXPECT_EQ(result(product, *e), first);
  host.store.bring_back(wb);
  expect_there();
  host.store.clear();
  EXPECT_EQ(host.store.bytes(), 0u);
}

TEST_F(ReplacedOperands, ArePackedNoMoreThanTheLimitWhenTheyAreBack) {
  const Floats first = give_away();
  host.store.set_limit(64);
  host.store.bring_back(wb);
  EXPECT_EQ(host.store.bytes(), 0u);
  EXPECT_EQ(result(product, *e), first);
  expect_there();
}

TEST_F(ReplacedOperands, GoWithTheirBuffer) {
  give_away();
  for (uint32_t seed = 3; seed < 8; ++seed) {
    wb = {};
    const Floats other = random_floats(kOperandSize * kOperandSize, seed);
    wb = buffer_of(host, other);  // often at the address of the one before
    const Floats first = result(product, *e);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(result(product, *e), first);
    EXPECT_EQ(host.away, 1);
  }
}

}  // namespace
}  // namespace lazuli::testing
