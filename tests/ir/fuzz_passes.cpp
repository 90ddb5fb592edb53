// Random graphs compute the same with and without passes, each pass alone and all of them, by the interpreter.
#include "ir/hash.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/ir/fuzz.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

// LAZULI_FUZZ_SEEDS runs more of those of every type.
const uint32_t kExact = seeds(1000);
constexpr int kGraphs = 1000;

void compare(const Graph& graph, std::span<const Pass> passes, uint32_t seed) {
  Graph after = run_passes(graph, passes, {.disabled = {}, .verify = true, .on_change = {}, .on_time = {}});
  std::vector<Tensor> inputs = random_inputs(graph, seed);
  std::vector<Tensor> want = interpret(graph, inputs), got = interpret(after, inputs);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    // Merged sums round once where the original rounded twice.
    double tolerance = want[i].type.dtype == DType::BF16 ? 2e-2 : 1e-4;
    expect_close(got[i], want[i], tolerance,
                 "output " + std::to_string(i) + "\n" + print(graph) + "=>\n" + print(after));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Fuzz, AllPasses) {
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    compare(random_graph({.seed = seed, .discrete = false}), all_passes(), seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Fuzz, EachPassAlone) {
  for (const Pass& pass : all_passes()) {
    SCOPED_TRACE(std::string(pass.name));
    for (uint32_t seed = 1000; seed < 1000 + kGraphs / 2; ++seed) {
      SCOPED_TRACE(seed);
      compare(random_graph({.seed = seed, .nodes = 12, .discrete = false}), {&pass, 1}, seed);
      if (HasFatalFailure()) return;
    }
  }
}

// Rows that jump, too: small graphs, so that few of them hang on a rounding.
TEST(Fuzz, DiscreteRows) {
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE(seed);
    compare(random_graph({.seed = seed, .nodes = 6, .composites = false, .narrow = false}), all_passes(), seed);
    if (HasFatalFailure()) return;
  }
}

// To the last bit: of every element type, and of nothing.
void compare_exactly(const Graph& graph, std::span<const Pass> passes, uint32_t seed) {
  const Graph after = run_passes(graph, passes, {.disabled = {}, .verify = true, .on_change = {}, .on_time = {}});
  const std::vector<Tensor> inputs = random_inputs(graph, seed);
  const std::vector<Tensor> want = interpret(graph, inputs), got = interpret(after, inputs);
  for (size_t i = 0; i < want.size(); ++i) {
    expect_close(got[i], want[i], 0, "output " + std::to_string(i) + "\n" + print(graph) + "=>\n" + print(after));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Fuzz, EveryTypeExactly) {
  for (uint32_t seed = 0; seed < kExact; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph({.seed = seed, .exact = true});
    compare_exactly(graph, all_passes(), seed);
    for (const Pass& pass : all_passes()) {
      SCOPED_TRACE(std::string(pass.name));
      compare_exactly(graph, {&pass, 1}, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Fuzz, MeetsEveryConversion) {
  constexpr size_t kTypes = static_cast<size_t>(DType::F64) + 1;
  bool met[kTypes][kTypes] = {}, empty = false;
  for (uint32_t seed = 0; seed < kExact; ++seed) {
    const Graph graph = random_graph({.seed = seed, .exact = true});
    for (const Node& n : graph.nodes) {
      if (n.op == Op::convert)
        met[static_cast<size_t>(graph.type(n.inputs[0]).dtype)][static_cast<size_t>(n.types[0].dtype)] = true;
      empty |= n.types[0].numel() == 0;
    }
  }
  EXPECT_TRUE(empty);
  for (size_t from = 0; from < kTypes; ++from)
    for (size_t to = 0; to < kTypes; ++to)
      EXPECT_TRUE(met[from][to] || from == to)
          << name(static_cast<DType>(from)) << " to " << name(static_cast<DType>(to));
}

TEST(Fuzz, TextRoundTrips) {
  for (uint32_t seed = 0; seed < kGraphs; ++seed) {
    Graph graph = random_graph({.seed = seed});
    verify(graph);
    Graph again = parse(print(graph));
    ASSERT_TRUE(same_structure(graph, again)) << print(graph) << print(again);
    ASSERT_EQ(hash(graph), hash(again));
  }
}

TEST(Fuzz, ReachesMostOfTheTable) {
  std::vector<bool> seen(kOpCount, false);
  for (uint32_t seed = 0; seed < kGraphs; ++seed)
    for (const Node& n : random_graph({.seed = seed}).nodes) seen[static_cast<size_t>(n.op)] = true;
  for (size_t i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    bool wanted = (is_elementwise(op) && op != Op::random_uniform && op != Op::require) || is_reduction(op) ||
                  (is_view(op) && op != Op::bitcast);
    if (wanted) {
      EXPECT_TRUE(seen[i]) << name(op);
    }
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
