// Sums over the rows inside kernels that reduce rows (lowering/nest/schedules/accumulate.h): the plan computes the same
// with them and without.
#include "ir/passes/pass.h"
#include "jit/run/arguments.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

constexpr int64_t kRows = 199, kColumns = 520;

struct Planned {
  std::vector<Floats> outputs;
  int accumulating = 0;  // kernels
};

// The plan, run by the reference interpreter, each block in memory of its own.
Planned interpreted(const ir::Graph& graph, const std::vector<jit::Buffer>& inputs, int64_t accumulate) {
  lowering::PlanOptions options;
  options.threads = 4;
  options.accumulate = accumulate;
  const lowering::Plan plan = lowering::make_plan(graph, options);
  TestHost host;
  std::vector<jit::Buffer> memory;
  for (const lowering::Block& b : plan.blocks) {
    memory.push_back(host.allocate(static_cast<size_t>(b.bytes)));
    if (b.kind == lowering::Block::Input) std::memcpy(memory.back().data, inputs[b.index].data, memory.back().bytes);
  }
  Planned out;
  for (const lowering::PlanStep& step : plan.steps) {
    out.accumulating += step.loops.nest.accumulates();
    for (int64_t c = 0; c < step.chunks; ++c) {
      jit::Arguments arguments;
      arguments.add(step, c);
      arguments.fill(memory, {});
      interpret(step.loops.nest, arguments.data(), 0, units(step.loops.nest, arguments.data()));
    }
  }
  for (uint32_t b : plan.outputs) out.outputs.push_back(values_of(memory[b]));
  return out;
}

struct Graphs : Model {
  TestHost host;
  std::vector<jit::Buffer> inputs;

  Value given(ir::Dims shape, uint32_t seed) {
    const Value v = input(shape);
    inputs.push_back(buffer_of(host, random_floats(ir::product(shape), seed)));
    return v;
  }
  Value rows_of(Value x) { return apply(Op::sum, {x}, ir::Attrs{{1}, {1}}); }
  Value columns_of(Value x) { return apply(Op::sum, {x}, ir::Attrs{{0}, {0}}); }

  void expect_same(int accumulating) {
    const ir::Graph simple = ir::run_passes(graph, ir::all_passes());
    const Planned with = interpreted(simple, inputs, 1 << 16), without = interpreted(simple, inputs, INT64_MAX);
    EXPECT_EQ(with.accumulating, accumulating);
    EXPECT_EQ(without.accumulating, 0);
    for (size_t i = 0; i < with.outputs.size(); ++i) expect_close(with.outputs[i], without.outputs[i], 1e-4f);
  }
};

TEST(ColumnSums, JoinTheBackwardOfALayerNorm) {
  Graphs g;
  const Value gy = g.given({kRows, kColumns}, 1), x = g.given({kRows, kColumns}, 2), mean = g.given({kRows, 1}, 3);
  const Value rstd = g.given({kRows, 1}, 4), w = g.given({kColumns}, 5);
  g.apply(Op::layer_norm_backward, {gy, x, mean, rstd, w}, ir::Attrs{{1}});
  g.graph.outputs = {g.all()[0], g.all()[1], g.all()[2]};
  g.expect_same(1);
}

TEST(ColumnSums, JoinWhicheverComesFirst) {
  for (bool sums_first : {false, true}) {
    Graphs g;
    const Value x = g.given({kRows, kColumns}, 1), y = g.given({kRows, kColumns}, 2);
    auto rows = [&] { return g.mul(x, g.rows_of(g.mul(x, y))); };
    auto columns = [&] { return g.columns_of(g.mul(x, x)); };
    Value a = sums_first ? columns() : rows(), b = sums_first ? rows() : columns();
    g.graph.outputs = {a, b};
    g.expect_same(1);
  }
}

TEST(ColumnSums, StayApartWhereOneReadsTheOther) {
  Graphs g;
  const Value x = g.given({kRows, kColumns}, 1), y = g.given({kRows, kColumns}, 2);
  const Value z = g.mul(x, g.rows_of(g.mul(x, y)));  // stored, since it is an output
  g.graph.outputs = {z, g.columns_of(g.mul(z, x))};
  g.expect_same(0);

  Graphs h;
  const Value u = h.given({kRows, kColumns}, 1), v = h.given({kRows, kColumns}, 2);
  const Value total = h.columns_of(h.mul(u, v));
  h.graph.outputs = {h.mul(u, h.rows_of(h.mul(u, h.mul(v, total)))), total};
  h.expect_same(0);
}

TEST(ColumnSums, StayApartWhereSomethingBetweenNeedsBothOrders) {
  // The sums depend on a kernel that depends on the rows' result.
  Graphs g;
  const Value x = g.given({kRows, kColumns}, 1), y = g.given({kRows, kColumns}, 2);
  const Value sums = g.rows_of(g.mul(x, y)), z = g.mul(x, sums);
  const Value factor = g.apply(Op::sum, {g.apply(Op::exp, {sums})}, ir::Attrs{{0}, {1}});
  g.graph.outputs = {z, g.columns_of(g.mul(g.mul(x, y), factor))};
  g.expect_same(0);
}

TEST(ColumnSums, OfOtherReductionsStayApart) {
  Graphs g;
  const Value x = g.given({kRows, kColumns}, 1), y = g.given({kRows, kColumns}, 2);
  g.graph.outputs = {g.mul(x, g.rows_of(g.mul(x, y))), g.apply(Op::amax, {x}, ir::Attrs{{0}, {0}})};
  g.expect_same(0);
}

TEST(ColumnSums, OfFewRowsOrOtherShapesStayApart) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{30, 600}, {400, 100}, {50, 5000}}) {
    Graphs g;
    const Value x = g.given({rows, columns}, 1), y = g.given({rows, columns}, 2);
    g.graph.outputs = {g.mul(x, g.rows_of(g.mul(x, y))), g.columns_of(g.mul(x, x))};
    g.expect_same(0);
  }
}

}  // namespace
}  // namespace lazuli::testing
