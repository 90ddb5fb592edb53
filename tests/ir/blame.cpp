// A planted fault is led to the op that it is in: a row that is computed wrong, and passes that turn right graphs into
// wrong ones.
#include "ir/blame.h"
#include <bit>
#include "ir/interpret.h"
#include "ir/passes/rewrite.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

using Compute = std::function<std::vector<Tensor>(const Graph&, std::span<const Tensor>, std::span<const int64_t>)>;

constexpr const char* kModel = R"(
%0 : f32[4,3] = input [position=0]
%1 : f32[3,5] = input [position=1]
%2 : f32[4,5] = matmul %0, %1 ; model.py:1
%3 : f32[] = constant [value=2]
%4 : f32[4,5] = mul %2, %3 ; model.py:2
%5 : f32[4,5] = gelu %4 ; model.py:3
%6 : f32[4,5] = exp %5 ; model.py:4
%7 : f32[4,5] = log %6 ; model.py:5
%8 : f32[4] = sum %7 [dims=1 keepdim=0] ; model.py:6
%9 : f32[4] = tanh %8 ; model.py:7
return %9
)";

// Whole, and blamed with what `compute` makes of parts.
struct Planted {
  Graph graph;
  std::vector<Tensor> inputs;
  std::vector<int64_t> scalars;
  int asked = 0;

  explicit Planted(const char* text) : graph(parse(text)) {
    std::mt19937 generator(1);
    for (const Type& t : input_types(graph)) inputs.push_back(random_tensor(t, generator));
  }
  std::vector<Tensor> right(std::span<const Value> values) const {
    Graph g = graph;
    g.outputs.assign(values.begin(), values.end());
    return interpret(g, inputs, scalars);
  }
  std::optional<Blame> blame(const Compute& compute, size_t output = 0) {
    return find_blame(graph, graph.outputs[output], [&](const Portion& part) {
      ++asked;
      const std::vector<Tensor> in = right(part.inputs);
      std::vector<int64_t> numbers;
      for (uint32_t s : part.scalars) numbers.push_back(scalars[s]);
      const auto want = interpret(part.graph, in, numbers), got = compute(part.graph, in, numbers);
      for (size_t i = 0; i < want.size(); ++i)
        for (int64_t k = 0; k < want[i].type.numel(); ++k)
          if (std::abs(got[i].at(k) - want[i].at(k)) > 1e-5 * (1 + std::abs(want[i].at(k)))) return true;
      return false;
    });
  }
};

// As if the code of a row were another's.
Compute mistaking(Op op, Op for_other) {
  return [=](const Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars) {
    Graph wrong = graph;
    for (Node& n : wrong.nodes)
      if (n.op == op) n.op = for_other;
    return interpret(wrong, inputs, scalars);
  };
}
Compute after(Graph (*pass)(const Graph&)) {
  return [=](const Graph& graph, std::span<const Tensor> inputs, std::span<const int64_t> scalars) {
    return interpret(pass(graph), inputs, scalars);
  };
}

// log(exp(x)) is x, and not -x.
Graph wrong_simplification(const Graph& graph) {
  return rewrite(graph, [](Rewriter& r, uint32_t id) {
    const Node& n = r.from().nodes[id];
    if (n.op != Op::log || r.from()[n.inputs[0]].op != Op::exp) return Value{};
    return r.builder().neg(r[r.from()[n.inputs[0]].inputs[0]]);
  });
}

std::string line(const Planted& p, uint32_t node) { return p.graph.lines[p.graph.nodes[node].line]; }

TEST(Blame, NamesARowThatIsComputedWrong) {
  const std::pair<Op, const char*> faults[] = {{Op::mul, "model.py:2"}, {Op::gelu, "model.py:3"},
                                               {Op::exp, "model.py:4"}, {Op::log, "model.py:5"},
                                               {Op::sum, "model.py:6"}, {Op::tanh, "model.py:7"}};
  for (auto [op, where] : faults) {
    Planted p(kModel);
    const auto blame = p.blame(mistaking(op, op == Op::mul ? Op::add : op == Op::sum ? Op::amax : Op::sigmoid));
    ASSERT_TRUE(blame) << where;
    EXPECT_EQ(line(p, blame->node), where);
    EXPECT_EQ(blame->part.graph.nodes.back().op, op);
    EXPECT_LE(p.asked, 8);
    // It alone, from the values that are right.
    for (const Node& n : blame->part.graph.nodes) EXPECT_TRUE(is_leaf(n.op) || n.op == op) << name(n.op);
  }
}

TEST(Blame, NamesTheFirstOfTwo) {
  Planted p(kModel);
  const Compute first = mistaking(Op::gelu, Op::silu);
  const auto blame = p.blame([&](const Graph& g, std::span<const Tensor> in, std::span<const int64_t> s) {
    Graph wrong = g;
    for (Node& n : wrong.nodes)
      if (n.op == Op::tanh) n.op = Op::sin;
    return first(wrong, in, s);
  });
  ASSERT_TRUE(blame);
  EXPECT_EQ(line(p, blame->node), "model.py:3");
}

TEST(Blame, KeepsWhatAPassNeedsTogether) {
  Planted p(kModel);
  const auto blame = p.blame(after(wrong_simplification));
  ASSERT_TRUE(blame);
  EXPECT_EQ(line(p, blame->node), "model.py:5");
  std::vector<Op> ops;
  for (const Node& n : blame->part.graph.nodes)
    if (!is_leaf(n.op)) ops.push_back(n.op);
  EXPECT_EQ(ops, (std::vector<Op>{Op::exp, Op::log}));
}

TEST(Blame, KnowsResultsAndNumbers) {
  Planted p(R"(
%0 : f32[2,4] = input [position=0]
%1 : f32[] = scalar [position=0]
%2 : f32[] = scalar [position=1]
%3 : f32[2,4], %4 : f32[2,1], %5 : f32[2,1] = layer_norm %0, _, _, %1 [dims=1] ; model.py:1
%6 : f32[2,1] = mul %5, %2 ; model.py:2
%7 : f32[2,4] = add %3, %6 ; model.py:3
%8 : f32[2,4] = exp %7 ; model.py:4
return %7, %8
)");
  for (double number : {1e-5, 3.0}) p.scalars.push_back(std::bit_cast<int64_t>(number));
  const auto blame = p.blame(mistaking(Op::mul, Op::add), 1);
  ASSERT_TRUE(blame);
  EXPECT_EQ(line(p, blame->node), "model.py:2");
  EXPECT_EQ(blame->part.scalars, (std::vector<uint32_t>{1}));
}

TEST(Blame, SaysNothingOfWhatIsRight) {
  Planted p(kModel);
  EXPECT_FALSE(p.blame(mistaking(Op::sin, Op::cos)));
  EXPECT_EQ(p.asked, 1);
}

}  // namespace
}  // namespace lazuli::ir::testing
