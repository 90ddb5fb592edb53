// Products of awkward sizes: what they become computes the same, in sizes that are good, without further copies.
#include "lowering/graph/align_products.h"
#include "ir/interpret.h"
#include "ir/print.h"
#include "lowering/fusion/library_calls.h"
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

// The CPU's, were they slow for sizes that are no multiples of eight.
class Eights final : public lowering::Libraries {
 public:
  bool serves(const ir::Node& node) const override { return lowering::cpu_libraries().serves(node); }
  bool takes(const ir::Node& node, std::span<const lowering::PostOp> ops) const override {
    return lowering::cpu_libraries().takes(node, ops);
  }
  int64_t good_multiple(const ir::Node&) const override { return 8; }
  std::unique_ptr<lowering::LibraryCall> make(const ir::Node& node, std::span<const lowering::Layout> operands,
                                              std::span<const lowering::Layout> results,
                                              std::span<const lowering::PostOp> ops) const override {
    return lowering::cpu_libraries().make(node, operands, results, ops);
  }
};

Value product(Model& m, int64_t rows, int64_t inner, int64_t columns, bool transpose_a, bool transpose_b) {
  auto a = transpose_a ? m.transpose(m.input({inner, rows})) : m.input({rows, inner});
  auto b = transpose_b ? m.transpose(m.input({columns, inner})) : m.input({inner, columns});
  return m.apply(Op::matmul, {a, b});
}

ir::Graph aligned(const ir::Graph& graph) { return lowering::align_products(graph, Eights()); }

// Sizes along which an operand or the result is contiguous.
void expect_good_sizes(const ir::Graph& graph) {
  for (const ir::Node& node : graph.nodes) {
    if (node.op != Op::matmul) continue;
    for (Value x : node.inputs) {
      const bool transposed = graph[x].op == Op::permute;
      EXPECT_EQ(graph.type(x).shape[transposed ? 0 : 1] % 8, 0);
    }
    EXPECT_EQ(node.types[0].shape[1] % 8, 0);
  }
}

TEST(AlignProducts, ComputeTheSame) {
  for (auto [m, k, n] : {std::array<int64_t, 3>{136, 128, 131}, {136, 131, 128}, {131, 128, 136}, {129, 130, 131}})
    for (int t = 0; t < 4; ++t) {
      Model model;
      model.graph.outputs = {product(model, m, k, n, t & 1, t & 2)};
      const ir::Graph after = aligned(model.graph);
      expect_good_sizes(after);
      std::vector<ir::Tensor> inputs;
      for (const ir::Node& node : model.graph.nodes) {
        if (node.op != Op::input) continue;
        inputs.emplace_back(node.types[0]);
        const Floats values = random_floats(node.types[0].numel(), static_cast<uint32_t>(inputs.size()));
        for (int64_t i = 0; i < node.types[0].numel(); ++i) inputs.back().set(i, values[i]);
      }
      const auto want = ir::interpret(model.graph, inputs), got = ir::interpret(after, inputs);
      ASSERT_EQ(want[0].type, got[0].type);
      for (int64_t i = 0; i < want[0].type.numel(); ++i) ASSERT_EQ(want[0].at(i), got[0].at(i)) << m << k << n << t;
    }
}

TEST(AlignProducts, OthersStayAsTheyAre) {
  Model small, good, batch;
  small.graph.outputs = {product(small, 512, 100, 513, false, false)};
  good.graph.outputs = {product(good, 512, 128, 136, true, false)};
  batch.graph.outputs = {batch.apply(Op::matmul, {batch.input({2, 200, 201}), batch.input({2, 201, 203})})};
  for (const Model* m : {&small, &good, &batch}) EXPECT_EQ(ir::print(aligned(m->graph)), ir::print(m->graph));
}

// Both gradients of a product read the same larger operand, and its maker writes that and nothing else.
TEST(AlignProducts, OperandsAreWrittenOnce) {
  Model m;
  auto x = m.input({256, 128}), w = m.input({131, 128}), logits = m.input({256, 131});
  auto g = m.apply(Op::exp, {logits});
  m.graph.outputs = {m.apply(Op::matmul, {g, w}), m.apply(Op::matmul, {m.transpose(g), x})};
  const ir::Graph after = aligned(m.graph);
  const Eights libraries;
  lowering::PlanOptions options;
  options.libraries = &libraries;
  const lowering::Plan plan = lowering::make_plan(after, options);
  int wide = 0;
  for (const lowering::PlanStep& step : plan.steps)
    for (size_t a = 0; a < step.loops.accesses.size(); ++a)
      if (step.loops.nest.accesses[a].store && ir::product(step.loops.sizes) >= 256 * 131) ++wide;
  EXPECT_EQ(wide, 1) << lowering::print(after, plan);
}

}  // namespace
}  // namespace lazuli::testing
