// Attention that is written out, in blocks of queries: it computes the same, and no value has all scores any more.
#include "lowering/graph/query_blocks.h"
#include <algorithm>
#include <random>
#include "ir/builder.h"
#include "ir/interpret.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "lowering/fusion/library_calls.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

constexpr int64_t kHeads = 2, kQueries = 1100, kKeys = 64, kDepth = 8;

// The CPU's, with little memory for scores.
class Little final : public lowering::Libraries {
 public:
  bool serves(const Node& node) const override { return lowering::cpu_libraries().serves(node); }
  bool takes(const Node& node, std::span<const lowering::PostOp> ops) const override {
    return lowering::cpu_libraries().takes(node, ops);
  }
  int64_t bytes_of_scores() const override { return 16 << 10; }
  std::unique_ptr<lowering::LibraryCall> make(const Node& node, std::span<const lowering::Layout> operands,
                                              std::span<const lowering::Layout> results,
                                              std::span<const lowering::PostOp> post_ops) const override {
    return lowering::cpu_libraries().make(node, operands, results, post_ops);
  }
};

Graph blocked(const Graph& graph) {
  const Graph after = lowering::query_blocks(graph, Little());
  verify(after);
  return run_passes(after, std::vector{*find_pass("dead_code")});
}

bool has_all_scores(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) {
    return std::ranges::any_of(n.types, [](const Type& t) { return t.numel() >= kHeads * kQueries * kKeys; });
  });
}

void expect_same(const Graph& before, const Graph& after) {
  std::mt19937 generator(1);
  std::vector<Tensor> inputs;
  for (const Type& t : input_types(before)) inputs.push_back(random_tensor(t, generator, -1, 1));
  const auto want = interpret(before, inputs), got = interpret(after, inputs);
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 1e-5, print(after));
}

struct Written {
  Graph graph;
  GraphBuilder b{graph};
  Value q = b.input({DType::F32, {kHeads, kQueries, kDepth}}), k = b.input({DType::F32, {kHeads, kKeys, kDepth}}),
        v = b.input({DType::F32, {kHeads, kKeys, kDepth}});
  Value scores = b.emit(Op::matmul, {q, b.transpose(k)}), probabilities;

  // A softmax, as it is decomposed; what is computed of the masked scores follows.
  Value attend() {
    const Dims along{2};
    const Value largest = b.emit(Op::amax, {scores}, Attrs().add(along).add(1));
    const Value e = b.emit(Op::exp, {b.sub(scores, largest)});
    probabilities = b.div(e, b.sum(e, along, true));
    return b.emit(Op::matmul, {probabilities, v});
  }
  // Its derivatives where `g` is y's.
  void derive(Value g) {
    const Value gp = b.emit(Op::matmul, {g, b.transpose(v)});
    const Value gs = b.mul(b.sub(gp, b.sum(b.mul(gp, probabilities), Dims{2}, true)), probabilities);
    graph.outputs.push_back(b.emit(Op::matmul, {b.transpose(probabilities), g}));
    graph.outputs.push_back(b.emit(Op::matmul, {gs, k}));
    graph.outputs.push_back(b.emit(Op::matmul, {b.transpose(gs), q}));
    graph.outputs.push_back(b.sum(gs, Dims{0, 1}, false));
  }
};

TEST(QueryBlocks, Forward) {
  Written w;
  w.graph.outputs = {w.attend()};
  const Graph after = blocked(w.graph);
  EXPECT_FALSE(has_all_scores(after)) << print(after);
  expect_same(w.graph, after);
}

TEST(QueryBlocks, MasksOfPositionsAreComputedByBlock) {
  Written w;
  GraphBuilder& b = w.b;
  const Value query = b.reshape(b.emit(Op::iota, {}, Attrs{{kQueries}}), Dims{kQueries, 1}),
              key = b.emit(Op::iota, {}, Attrs{{kKeys}});
  w.scores = b.emit(Op::where, {b.emit(Op::le, {key, query}), w.scores, b.constant(-1e30, DType::F32)});
  w.graph.outputs = {w.attend()};
  const Graph after = blocked(w.graph);
  EXPECT_TRUE(std::ranges::none_of(after.nodes, [](const Node& n) {
    return n.types[0].shape == Dims{kQueries, kKeys};
  })) << print(after);
  expect_same(w.graph, after);
}

// Backward needs what became of forward's result, so it computes the scores anew.
TEST(QueryBlocks, Backward) {
  Written w;
  const Value y = w.attend();
  w.graph.outputs = {y};
  w.derive(w.b.mul(y, y));
  const Graph after = blocked(w.graph);
  EXPECT_FALSE(has_all_scores(after)) << print(after);
  EXPECT_TRUE(std::ranges::any_of(after.nodes, [](const Node& n) { return n.op == Op::detach; })) << print(after);
  expect_same(w.graph, after);
}

TEST(QueryBlocks, ScoresThatOthersReadStayWhole) {
  Written w;
  w.graph.outputs = {w.attend(), w.probabilities};
  EXPECT_EQ(print(lowering::query_blocks(w.graph, Little())), print(w.graph));
}

TEST(QueryBlocks, SoftmaxOverQueriesStaysWhole) {
  Written w;
  const Value e = w.b.emit(Op::exp, {w.scores});
  const Value largest = w.b.emit(Op::amax, {e}, Attrs().add(Dims{1}).add(1));
  w.graph.outputs = {w.b.emit(Op::matmul, {w.b.div(e, largest), w.v})};
  const Graph after = blocked(w.graph);
  EXPECT_TRUE(has_all_scores(after));
  expect_same(w.graph, after);
}

TEST(QueryBlocks, FewScoresStayWhole) {
  Written w;
  w.graph.outputs = {w.attend()};
  EXPECT_EQ(print(lowering::query_blocks(w.graph, lowering::cpu_libraries())), print(w.graph));
}

}  // namespace
}  // namespace lazuli::ir::testing
