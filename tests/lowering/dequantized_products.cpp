// Products of a few rows with a matrix that is computed from fewer bytes: as sums they compute the same.
#include "lowering/graph/dequantized_products.h"
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

struct Case {
  int64_t rows = 1;
  DType type = DType::F32, bits = DType::I8;
  bool turned = false, scaled = false, first = false, kept = false;
};

Graph make(const Case& c) {
  constexpr int64_t kDepth = 320, kColumns = 256;
  Graph graph;
  GraphBuilder b(graph);
  const Value packed = b.input({c.bits, c.turned ? Dims{kColumns, kDepth} : Dims{kDepth, kColumns}});
  Value w = b.convert(packed, c.type);
  if (c.scaled) w = b.mul(w, b.broadcast(b.input({c.type, {b.shape(w)[0], 1}}), b.shape(w)));
  if (c.turned) w = b.transpose(w);
  const Value x = b.input({c.type, {c.rows, kDepth}});
  graph.outputs = {c.first ? b.emit(Op::matmul, {b.transpose(w), b.transpose(x)}) : b.emit(Op::matmul, {x, w})};
  if (c.kept) graph.outputs.push_back(w);
  return graph;
}

Graph rewritten(const Graph& graph) {
  const Graph after = lowering::dequantized_products(graph, lowering::cpu_libraries());
  verify(after);
  return run_passes(after, std::vector{*find_pass("dead_code")});
}

size_t products(const Graph& graph) {
  return static_cast<size_t>(std::ranges::count(graph.nodes, Op::matmul, &Node::op));
}

TEST(DequantizedProducts, ComputeTheSame) {
  for (int64_t rows : {1, 2, 4})
    for (DType type : {DType::F32, DType::F64, DType::BF16})
      for (int form = 0; form < 8; ++form) {
        const Graph graph = make({.rows = rows,
                                  .type = type,
                                  .bits = form & 1 ? DType::I8 : DType::U8,
                                  .turned = (form & 1) != 0,
                                  .scaled = (form & 2) != 0,
                                  .first = (form & 4) != 0});
        const Graph after = rewritten(graph);
        EXPECT_EQ(products(after), 0u) << print(after);
        std::mt19937 generator(1);
        std::vector<Tensor> inputs;
        for (const Type& t : input_types(graph)) inputs.push_back(random_tensor(t, generator, 0, 4));
        const auto want = interpret(graph, inputs), got = interpret(after, inputs);
        expect_close(got[0], want[0], type == DType::BF16 ? 1e-2 : 1e-5, print(after));
      }
}

// Not by way of bfloat16, which holds all of them.
TEST(DequantizedProducts, BytesBecomeFloatsInOneStep) {
  for (bool turned : {false, true}) {
    const Graph after = rewritten(make({.type = DType::BF16, .turned = turned}));
    const Size matrix = after.nodes[0].types[0].numel();
    for (const Node& n : after.nodes)
      if (n.op == Op::convert && n.types[0].numel() == matrix) EXPECT_EQ(n.types[0].dtype, DType::F32) << print(after);
  }
}

// Bytes that are added up in int32 need no conversion before.
TEST(DequantizedProducts, OfBytes) {
  for (DType type : {DType::I8, DType::U8}) {
    Graph graph;
    GraphBuilder b(graph);
    const Value x = b.input({type, {2, 512}}), w = b.input({DType::I8, {512, 256}});
    graph.outputs = {b.emit(Op::int_mm, {x, w})};
    const Graph after = rewritten(graph);
    EXPECT_EQ(std::ranges::count(after.nodes, Op::int_mm, &Node::op), 0) << print(after);
    const double lowest = type == DType::I8 ? -128 : 255;
    std::vector<Tensor> inputs;
    for (const Type& t : input_types(graph)) inputs.emplace_back(t);
    for (int64_t i = 0; i < 2 * 512; ++i) inputs[0].set(i, i < 512 ? lowest : i % 100);
    for (int64_t i = 0; i < 512 * 256; ++i) inputs[1].set(i, i % 256 == 0 ? -128 : i % 7 - 3);
    const auto want = interpret(graph, inputs), got = interpret(after, inputs);
    EXPECT_EQ(want[0].at(0), lowest * -128 * 512);
    expect_close(got[0], want[0], 0, print(after));
  }
}

// Numbers of 4 bits that lie in the halves of bytes: stacked, or one half behind the other, under a scale a group.
Graph of_halves(int64_t rows, bool alternate, bool grouped) {
  constexpr int64_t kDepth = 512, kColumns = 256, kGroup = 64;
  Graph graph;
  GraphBuilder b(graph);
  const Value packed = b.input({DType::U8, {kColumns, kDepth / 2}});
  const auto number = [&](double v) { return b.full(b.shape(packed), v, DType::U8); };
  std::vector<Value> halves{b.emit(Op::bitwise_and, {packed, number(15)}),
                            b.emit(Op::shift_right, {packed, number(4)})};
  if (alternate)
    for (Value& half : halves) half = b.reshape(half, Dims{kColumns, kDepth / 2, 1});
  Value w = b.emit(Op::cat, halves, Attrs{{alternate ? 2 : 1}});
  const Dims shape = grouped ? Dims{kColumns, kDepth / kGroup, kGroup} : Dims{kColumns, kDepth};
  w = b.convert(b.reshape(w, shape), DType::F32);
  if (grouped) w = b.mul(w, b.broadcast(b.input({DType::F32, {kColumns, kDepth / kGroup, 1}}), shape));
  w = b.transpose(b.reshape(w, Dims{kColumns, kDepth}));
  graph.outputs = {b.emit(Op::matmul, {b.input({DType::F32, {rows, kDepth}}), w})};
  return graph;
}

TEST(DequantizedProducts, OfWhatIsPutTogether) {
  for (int64_t rows : {1, 3})
    for (int form = 0; form < 4; ++form) {
      const Graph graph = of_halves(rows, (form & 1) != 0, (form & 2) != 0);
      const Graph after = rewritten(graph);
      EXPECT_EQ(products(after), 0u) << print(after);
      for (const Node& node : after.nodes)
        if (node.op == Op::cat) EXPECT_LE(node.types[0].numel(), rows * 512) << print(after);
      std::mt19937 generator(1);
      std::vector<Tensor> inputs;
      for (const Type& t : input_types(graph)) inputs.push_back(random_tensor(t, generator, 0, 200));
      const auto want = interpret(graph, inputs), got = interpret(after, inputs);
      expect_close(got[0], want[0], 1e-5, print(after));
    }
}

TEST(DequantizedProducts, OthersStay) {
  EXPECT_EQ(products(rewritten(make({.rows = 5}))), 1u);
  EXPECT_EQ(products(rewritten(make({.kept = true}))), 1u);                            // it is in memory in any case
  EXPECT_EQ(products(rewritten(make({.type = DType::F32, .bits = DType::F32}))), 1u);  // there is nothing to save
}

}  // namespace
}  // namespace lazuli::ir::testing
