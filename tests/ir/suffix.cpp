// Graphs in two parts compute what they do whole, wherever they are cut; and what counts as the same end.
#include "ir/suffix.h"
#include <bit>
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/ir/fuzz.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

std::vector<Tensor> interpret_parts(const Graph& whole, const Parts& parts, const std::vector<Tensor>& inputs,
                                    const std::vector<int64_t>& scalars) {
  std::vector<Tensor> values = inputs;
  values.resize(parts.values);
  for (const Part* part : {&parts.first, &parts.second}) {
    std::vector<Tensor> in;
    for (uint32_t v : part->inputs) in.push_back(values[v]);
    std::vector<int64_t> numbers;
    for (uint32_t s : part->scalars) numbers.push_back(scalars[s]);
    const std::vector<Tensor> out = interpret(part->graph, in, numbers);
    for (size_t i = 0; i < out.size(); ++i) values[part->outputs[i]] = out[i];
  }
  const auto first = values.begin() + whole.input_count;
  return {first, first + static_cast<ptrdiff_t>(whole.outputs.size())};
}

void expect_same_in_parts(const Graph& graph, size_t count, const std::vector<Tensor>& inputs, const std::vector<int64_t>& scalars) {
  const Parts parts = split(graph, count);
  verify(parts.first.graph);
  verify(parts.second.graph);
  ASSERT_EQ(applications(parts.second.graph), count);
  ASSERT_EQ(applications(parts.first.graph) + count, applications(graph));
  const std::vector<Tensor> want = interpret(graph, inputs, scalars), got = interpret_parts(graph, parts, inputs, scalars);
  for (size_t i = 0; i < want.size(); ++i)
    expect_close(got[i], want[i], 0, print(graph) + "=>\n" + print(parts.first.graph) + "\n" + print(parts.second.graph));
}

TEST(Suffix, PartsComputeWhatTheWholeDoes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph({.seed = seed});
    const size_t all = applications(graph);
    for (size_t count : {size_t{0}, size_t{1}, all / 3, all / 2, all - 1, all})
      expect_same_in_parts(graph, count, random_inputs(graph, seed), {});
    if (HasFatalFailure()) return;
  }
}

TEST(Suffix, AGraphEndsAsItselfDoes) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Graph graph = random_graph({.seed = seed});
    ASSERT_EQ(common_suffix(graph, graph), applications(graph)) << print(graph);
  }
}

// Two numbers and an input of its own in each half; the halves have three nodes each.
Graph step(int rows, const std::string& last = "mul", const std::string& outputs = "%6, %11") {
  const std::string n = std::to_string(rows);
  return parse("%0 : f32[" + n + ",4] = input [position=0]\n"
               "%1 : f32[4] = input [position=1]\n"
               "%2 : f32[] = scalar [position=0]\n"
               "%3 : f32[" + n + ",4] = mul %0, %1\n"
               "%4 : f32[" + n + ",4] = add %3, %2\n"
               "%5 : f32[4] = sum %4 [dims=0 keepdim=0]\n"
               "%6 : f32[4] = neg %5\n"
               "%7 : f32[4] = input [position=2]\n"
               "%8 : f32[] = scalar [position=1]\n"
               "%9 : f32[4] = add %7, %6\n"
               "%10 : f32[4] = mul %9, %8\n"
               "%11 : f32[4] = " + last + " %1, %10\n"
               "return " + outputs + "\n");
}

TEST(Suffix, SizesBeforeDoNotMatter) {
  // The sum reads what has other sizes.
  EXPECT_EQ(common_suffix(step(5), step(7)), 4u);
  EXPECT_EQ(common_suffix(step(5), step(5)), 7u);
}

TEST(Suffix, WhatDiffers) {
  EXPECT_EQ(common_suffix(step(5), step(7, "add")), 0u);
  EXPECT_EQ(common_suffix(step(5), step(7, "mul", "%11")), 3u) << "one's negation is an output";
  Graph wired = step(7);
  wired.nodes[9].inputs[1] = {7, 0};
  EXPECT_EQ(common_suffix(step(5), wired), 2u) << "the sum of an input and itself";
  Graph swapped = step(7);
  swapped.nodes[11].inputs[0] = {7, 0};
  EXPECT_EQ(common_suffix(step(5), swapped), 2u) << "the last factor is the input that was added";
}

TEST(Suffix, APartEndsAsTheWholeDoes) {
  const Graph graph = step(5);
  for (size_t count = 1; count <= 7; ++count) EXPECT_EQ(common_suffix(step(5), split(graph, count).second.graph), count);
  EXPECT_EQ(common_suffix(step(7), split(graph, 5).second.graph), 4u);
}

TEST(Suffix, PartsSayWhatIsNeededLater) {
  Graph graph = step(5);
  graph.donated = {true, true, false};
  const Parts parts = split(graph, 3);
  const Part &first = parts.first, &second = parts.second;
  EXPECT_EQ(parts.values, 5u) << "what is handed over is an output";
  EXPECT_EQ(first.inputs, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(first.last, (std::vector<bool>{true, false})) << "the second part reads input 1";
  EXPECT_EQ(first.graph.donated, (std::vector<bool>{true, false}));
  EXPECT_EQ(first.outputs, (std::vector<uint32_t>{3}));
  EXPECT_EQ(second.inputs, (std::vector<uint32_t>{2, 3, 1}));
  EXPECT_EQ(second.last, (std::vector<bool>{true, false, true}));
  EXPECT_EQ(second.graph.donated, (std::vector<bool>{false, false, true}));
  EXPECT_EQ(second.outputs, (std::vector<uint32_t>{4}));
  EXPECT_EQ(first.scalars, (std::vector<uint32_t>{0}));
  EXPECT_EQ(second.scalars, (std::vector<uint32_t>{1}));
}

TEST(Suffix, WhatOnlyPassesOnIsNoOutput) {
  const Graph graph = step(5, "mul", "%11");
  const Parts parts = split(graph, 3);
  EXPECT_EQ(parts.values, 5u);
  EXPECT_EQ(parts.first.outputs, (std::vector<uint32_t>{4}));
  EXPECT_EQ(parts.second.inputs, (std::vector<uint32_t>{2, 4, 1}));
  EXPECT_EQ(parts.second.graph.donated, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(parts.second.outputs, (std::vector<uint32_t>{3}));
}

TEST(Suffix, NumbersGoToTheirParts) {
  const Graph graph = step(5);
  std::mt19937 random(1);
  std::vector<Tensor> inputs;
  for (const Type& type : input_types(graph)) inputs.push_back(random_tensor(type, random));
  std::vector<int64_t> scalars;
  for (double x : {1.5, -2.0}) scalars.push_back(std::bit_cast<int64_t>(x));
  for (size_t count = 0; count <= 7; ++count) expect_same_in_parts(graph, count, inputs, scalars);
}

}  // namespace
}  // namespace lazuli::ir::testing
