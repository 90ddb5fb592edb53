// Networks over steps of time, drawn at random: passes that bring their products together keep what they compute.
#include "ir/builder.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

class Network {
 public:
  explicit Network(uint32_t seed) : generator_(seed), builder_(graph_) {}

  Graph make() {
    // Few rows and wide weights, mostly.
    const int64_t width = pick({4, 8, 12}), steps = pick({1, 3, 4, 6});
    std::vector<Value> weights, sums;
    for (int k = pick({1, 2, 3}); k > 0; --k) weights.push_back(builder_.input({DType::F32, {width, width}}));
    Value state = builder_.input({DType::F32, {1, width}});
    values_.push_back(state);
    for (int64_t t = 0; t < steps; ++t) {
      const Value x = builder_.input({DType::F32, {pick({1, 1, 2}), width}});
      values_.push_back(x);
      for (int k = pick({1, 2, 4}); k > 0; --k) {
        const Value y = builder_.emit(Op::matmul, {any(values_), any(weights)});
        values_.push_back(coin() ? builder_.emit(Op::tanh, {y}) : y);
      }
      sums.push_back(outer(any(values_), any(values_)));
    }
    Value sum;
    for (Value v : sums) {
      if (builder_.shape(v) != Dims{width, width}) continue;
      sum = sum ? builder_.add(sum, v) : v;
      if (coin() && coin()) graph_.outputs.push_back(sum);
    }
    if (sum) graph_.outputs.push_back(sum);
    for (Value v : values_)
      if (coin()) graph_.outputs.push_back(v);
    graph_.outputs.push_back(values_.back());
    return std::move(graph_);
  }

 private:
  bool coin() { return generator_() % 2; }
  int64_t pick(std::initializer_list<int64_t> from) { return from.begin()[generator_() % from.size()]; }
  Value any(const std::vector<Value>& from) { return from[generator_() % from.size()]; }

  // What a step adds to a weight's gradient, or its transpose's.
  Value outer(Value x, Value y) {
    if (builder_.shape(x)[0] != builder_.shape(y)[0]) y = x;
    const Value product = builder_.emit(Op::matmul, {builder_.transpose(x), y});
    return coin() ? builder_.transpose(product) : product;
  }

  std::mt19937 generator_;
  Graph graph_;
  GraphBuilder builder_;
  std::vector<Value> values_;
};

std::vector<Tensor> inputs_of(const Graph& graph, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<Tensor> out;
  for (const Type& type : input_types(graph)) out.push_back(random_tensor(type, generator, -0.5, 0.5));
  return out;
}

size_t products(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count(graph.nodes, Op::matmul, &Node::op));
}

TEST(Recurrent, RandomNetworksComputeTheSame) {
  size_t fewer = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    const Graph graph = Network(seed).make();
    const std::vector<Tensor> inputs = inputs_of(graph, seed), want = interpret(graph, inputs);
    const Graph clean = run_passes(graph, std::vector{*find_pass("dead_code")});
    for (const char* name : {"sums_of_products", "batch_products", "all"}) {
      std::vector<Pass> passes(all_passes().begin(), all_passes().end());
      if (const Pass* one = find_pass(name)) passes = {*one, *find_pass("dead_code")};
      PassOptions options;
      options.verify = true;
      const Graph after = run_passes(graph, passes, options);
      fewer += products(after) < products(clean);
      const std::vector<Tensor> got = interpret(after, inputs);
      for (size_t i = 0; i < want.size(); ++i) {
        expect_close(got[i], want[i], 1e-5,
                     std::string(name) + " of seed " + std::to_string(seed) + "\n" + print(after));
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(fewer, 300u);  // of 1,800: it is seen at work
}

// 20,000 steps: neither the stack nor the square of their number.
TEST(Recurrent, ALongSequence) {
  Graph graph;
  GraphBuilder b(graph);
  const Value weight = b.input({DType::F32, {4, 4}}), x = b.input({DType::F32, {1, 4}});
  Value state = x;
  std::vector<Value> later;
  for (int t = 0; t < 20000; ++t) {
    state = b.emit(Op::tanh, {state});
    later.push_back(b.emit(Op::matmul, {state, weight}));
  }
  Value sum = later[0];
  for (size_t t = 1; t < later.size(); ++t) sum = b.add(sum, later[t]);
  graph.outputs = {sum};
  const Graph after = run_passes(graph, std::vector{*find_pass("batch_products"), *find_pass("dead_code")});
  EXPECT_EQ(products(after), 1u);
}

// A bias's gradient: steps of one row and of several, in any order, and rows that something else reads as well.
TEST(Recurrent, SumsOfRowsAreOneSum) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 generator(seed);
    Graph graph;
    GraphBuilder b(graph);
    const int64_t width = 5;
    Value sum = b.input({DType::F32, {width}});
    const int steps = 4 + static_cast<int>(generator() % 6);
    for (int t = 0; t < steps; ++t) {
      const int64_t count = t == 0 ? 3 : 1 + static_cast<int64_t>(generator() % 4);
      const Value rows = b.emit(Op::tanh, {b.input({DType::F32, {count, width}})});
      Attrs attrs;
      attrs.add(Dims{0}).add(true);
      const Value one = count > 1 ? b.emit(Op::sum, {rows}, attrs) : rows;
      sum = b.add(sum, b.reshape(one, Dims{width}));
      if (generator() % 4 == 0) graph.outputs.push_back(rows);
    }
    graph.outputs.push_back(sum);
    PassOptions options;
    options.verify = true;
    const Graph after =
        run_passes(graph, std::vector{*find_pass("sums_of_products"), *find_pass("dead_code")}, options);
    EXPECT_EQ(std::ranges::count(after.nodes, Op::sum, &Node::op), 1);
    const std::vector<Tensor> inputs = inputs_of(graph, seed), want = interpret(graph, inputs),
                              got = interpret(after, inputs);
    for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 1e-5, print(after));
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
